//! What a person does with the page: reads it, searches, asks, watches; with the keyboard, in the dark, on a narrow screen.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ferrule_testkit::Program;

use crate::browser::{Browser, Key, Scheme, or_skip};
use crate::cluster::{self, HOSTILE, HOSTILE_IP, HOSTILE_PORT};
use crate::stand::{PATIENCE, PODS, Stand, service, slice, until};

const WIDE: (u32, u32) = (1280, 860);
const NARROW: (u32, u32) = (360, 740);

/// Each view, by its place in the page and something it shows.
const VIEWS: [(&str, &str, &str); 5] = [
    ("overview", "/ferrule/#/", "Services by state"),
    ("services", "/ferrule/#/services", "shop/catalog"),
    ("service", "/ferrule/#/service/shop%2Ffrontend", "Endpoints ("),
    ("explain", "/ferrule/#/explain?origin=outside&to=203.0.113.80%3A80", "Because"),
    ("events", "/ferrule/#/events", "Not usable now"),
];

fn stand() -> Stand {
    let stand = Stand::new();
    stand.write("teams.yaml", &cluster::manifests());
    stand
}

fn serve(stand: &Stand) -> Program {
    let program = stand.start(&["--inspect-socket="]);
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
    until(|| stand.net.node().page_status(10249, "/ferrule/").filter(|status| *status == 200));
    program
}

/// What the browser complains about, but for the one question that a proxy without counters answers with 404, and for questions
/// that a busy proxy answers with 503, which the page asks again.
fn complaints(browser: &Browser<'_>) -> Vec<String> {
    let mut all = browser.complaints();
    all.retain(|line| !line.contains("/v1/counters") && !line.contains("status of 503"));
    all
}

#[test]
fn every_view_renders_in_both_schemes_and_on_narrow_screens_and_axe_finds_nothing() {
    if !or_skip() {
        return;
    }
    let stand = stand();
    let _program = serve(&stand);
    let browser = Browser::start(stand.net.node());
    let pictures = env::var_os("FERRULE_PICTURES");
    if pictures.is_some() {
        live_for_a_while(&stand);
    }
    for (name, path, shown) in VIEWS {
        for (scheme, size, suffix) in
            [(Scheme::Light, WIDE, ""), (Scheme::Dark, WIDE, "-dark"), (Scheme::Light, NARROW, "-narrow")]
        {
            browser.view(scheme, size);
            browser.show(path, shown);
            assert_eq!(browser.accessibility_problems(), [""; 0], "{name} {scheme:?} {size:?}");
            let fits = browser.run("return document.documentElement.scrollWidth <= window.innerWidth");
            assert_eq!(fits, true, "{name} is wider than {size:?}");
            if let Some(folder) = &pictures {
                browser.picture(&Path::new(folder).join(format!("{name}{suffix}.png")));
            }
        }
    }
    // Pages that were left hold no stream: there are fewer than were loaded here.
    browser.wait_until("return document.getElementById('live').innerText === 'live'");
    assert_eq!(complaints(&browser), [""; 0]);
}

/// For pictures that show something: endpoints come and go, and another program breaks rules.
fn live_for_a_while(stand: &Stand) {
    let seconds: u64 =
        env::var("FERRULE_PICTURES_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut turn: u64 = 0;
    while Instant::now() < end {
        turn += 1;
        let pods = &PODS[..=usize::try_from(turn % 3).expect("small")];
        stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(pods)));
        if turn % 97 == 60 {
            stand.nft(&["flush", "map", "ip", "kube-proxy", "endpoints"]);
        }
        // Busier at times.
        std::thread::park_timeout(Duration::from_millis(150 + (turn / 40 % 5) * 350));
    }
}

#[test]
fn services_are_searched_filtered_and_paged() {
    if !or_skip() {
        return;
    }
    let stand = stand();
    stand.write("many.yaml", &cluster::many(120));
    let _program = serve(&stand);
    let browser = Browser::start(stand.net.node());
    browser.show("/ferrule/#/services", "1 to 50 of 153 Services");
    browser.run("[...document.querySelectorAll('.pager a')].find(link => link.innerText === 'Last').click()");
    browser.wait_for("151 to 153 of 153 Services");
    browser.run("document.getElementById('search').focus()");
    browser.write("search");
    browser.wait_for("1 to 2 of 2 Services");
    // Slow typing searches for parts of the word before.
    browser.wait_until("return location.hash === '#/services?search=search'");
    browser.wait_for("1 to 2 of 2 Services");
    assert!(browser.text().contains("shop/search-index"), "{}", browser.text());
    browser.run("const search = document.getElementById('search'); search.value = '10.96.1.'; search.dispatchEvent(new Event('input'))");
    browser.wait_for("of 33 Services");
    for (state, found, name) in [
        ("noEndpoints", "1 to 3 of 3 Services", "logistics/labels"),
        ("refused", "1 to 1 of 1 Service", "billing/rates"),
        ("conflicting", "1 to 1 of 1 Service", "logistics/"),
        ("pending", "No Service matches", ""),
    ] {
        browser.run(&format!(
            "const state = document.getElementById('state'); state.value = '{state}'; state.dispatchEvent(new Event('change'))"
        ));
        browser.wait_for(found);
        assert!(browser.text().contains(name), "{state}: {}", browser.text());
    }
    assert_eq!(complaints(&browser), [""; 0]);
}

#[test]
fn a_packet_is_explained_and_a_wrong_question_too() {
    if !or_skip() {
        return;
    }
    let stand = stand();
    let _program = serve(&stand);
    let browser = Browser::start(stand.net.node());
    browser.show("/ferrule/#/explain", "Names a packet");
    let fill = |to: &str| {
        browser.run(&format!(
            "document.getElementById('to').value = '{to}'; document.querySelector('form').requestSubmit()"
        ));
    };
    fill("shop/basket:http");
    browser.wait_for("Forwarded – from 203.0.113.1 to 10.96.");
    browser.wait_for("used");
    browser.wait_for("Every endpoint");
    fill("shop/nothing");
    browser.wait_for("there is no Service shop/nothing that has a cluster IP");
    fill("logistics/labels:80");
    browser.wait_for("Rejected");
    let complaints = complaints(&browser);
    // The wrong question was answered with 400, which browsers note.
    assert!(complaints.iter().all(|line| line.contains("400")) && complaints.len() == 1, "{complaints:?}");
}

#[test]
fn changes_show_without_a_reload() {
    if !or_skip() {
        return;
    }
    let stand = stand();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let _program = serve(&stand);
    let browser = Browser::start(stand.net.node());
    browser.show("/ferrule/#/service/default%2Fweb", "10.244.1.6:8080");
    browser.run("window.loaded = 1");
    browser.wait_until("return document.getElementById('live').innerText === 'live'");
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[..1])));
    browser.wait_until("return !document.getElementById('main').innerText.includes('10.244.1.6:8080')");
    browser.wait_for("10.244.1.5:8080");
    browser.run("location.hash = '#/events'");
    browser.wait_for("first sync");
    stand.nft(&["flush", "map", "ip", "kube-proxy", "endpoints"]);
    browser.wait_for("nft (process");
    assert_eq!(browser.run("return window.loaded"), 1, "the page was loaded once");
    assert_eq!(complaints(&browser), [""; 0]);
}

/// Names come from the API server, and from the command names of other programs.
#[test]
fn hostile_names_are_shown_as_text() {
    if !or_skip() {
        return;
    }
    let stand = stand();
    stand.write("hostile.yaml", &cluster::hostile());
    let program = serve(&stand);
    let folder = tempfile::tempdir().expect("a folder");
    let nft = folder.path().join("<b id=bold>");
    let found = until(|| {
        ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"].into_iter().find(|path| Path::new(path).exists())
    });
    // By another process: a program cannot run while a child of another test still has it open for writing.
    let copied = Command::new("cp").arg(found).arg(&nft).status().expect("cp runs");
    assert!(copied.success());
    let flush = || Command::new(&nft).args(["flush", "map", "ip", "kube-proxy", "endpoints"]).status();
    let status = stand.net.node().run(flush).expect("the node").expect("it runs");
    assert!(status.success());
    assert!(program.wait_for("<b id=bold>", 0, PATIENCE).is_some(), "{}", program.log().join("\n"));
    let browser = Browser::start(stand.net.node());
    // As the diagnostics quote it.
    let port = HOSTILE_PORT.replace('"', "\\\"");
    for (path, shown) in [
        ("/ferrule/#/", "<b id=bold> (process"),
        ("/ferrule/#/services?search=%3Cimg", "No Service matches"),
        ("/ferrule/#/service/evil%2Ffields", &*port),
        ("/ferrule/#/service/evil%2Ffields", HOSTILE_IP),
        ("/ferrule/#/service/evil%2F%3Cimg%20src%3Dx%20onerror%3Dhacked()%3E", HOSTILE),
        ("/ferrule/#/explain?origin=outside&to=%3Cimg%20src%3Dx%20onerror%3Dhacked()%3E", HOSTILE),
        ("/ferrule/#/events", &*format!("Service evil/{HOSTILE}: metadata.name")),
        ("/ferrule/#/events", HOSTILE_IP),
    ] {
        browser.show(path, shown);
        let elements = browser.run(
            "return document.querySelectorAll('main img, main script, main svg[onload], main b').length",
        );
        assert_eq!(elements, 0, "{path}");
        assert_eq!(browser.run("return typeof window.hacked"), "undefined");
    }
    let complaints = complaints(&browser);
    assert!(complaints.iter().all(|line| line.contains("400")), "{complaints:?}");
}

/// Search, a Service, the question about it: without a mouse.
#[test]
fn the_keyboard_alone_is_enough() {
    if !or_skip() {
        return;
    }
    let stand = stand();
    let _program = serve(&stand);
    let browser = Browser::start(stand.net.node());
    browser.show("/ferrule/", "Services by state");
    let focused = || {
        browser
            .run("const it = document.activeElement; return it.id || it.innerText")
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    // Presses Tab until this has the focus; what has it is always visible as such.
    let tab_to = |wanted: &str| {
        for _ in 0..60 {
            browser.press(Key::Tab);
            if focused() == wanted {
                let outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle");
                assert_eq!(outline, "solid", "the focus on {wanted:?} is visible");
                return;
            }
        }
        panic!("Tab does not lead to {wanted:?}");
    };
    browser.press(Key::Tab);
    assert_eq!(focused(), "skip");
    browser.press(Key::Enter);
    assert_eq!(focused(), "main");
    browser.open("/ferrule/");
    browser.wait_for("Services by state");
    tab_to("Services");
    browser.press(Key::Enter);
    browser.wait_for("Name or address");
    browser.wait_until("return document.activeElement.tagName === 'H1'");
    tab_to("search");
    browser.write("basket");
    browser.press(Key::Enter);
    browser.wait_for("1 to 1 of 1 Service");
    assert_eq!(browser.run("return document.getElementById('said').textContent"), "1 to 1 of 1 Service");
    tab_to("shop/basket");
    browser.press(Key::Enter);
    browser.wait_for("What it asks for");
    browser.wait_until("return document.activeElement.innerText === 'shop/basket'");
    tab_to("http 80/tcp");
    browser.press(Key::Enter);
    browser.wait_for("Forwarded");
    tab_to("to");
    browser.write("1");
    browser.press(Key::Enter);
    browser.wait_for("is not a destination");
}
