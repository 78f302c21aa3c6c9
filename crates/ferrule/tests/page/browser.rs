//! A real browser in the node's network namespace, driven over WebDriver: plain HTTP and JSON.
//!
//! Chromium talks to its driver through a pipe and ends with it; the driver ends with a pipe of this process.

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ferrule_testkit::netns::{self, Namespace};
use serde_json::{Value, json};

use crate::stand::{PATIENCE, until};

const PORT: u16 = 9515;
const TIMEOUT: Duration = Duration::from_mins(1);
/// The driver ends when its input is closed, and the browser with it.
const LEASH: &str = r#""$@" >/dev/null 2>&1 & driver=$!; cat >/dev/null; kill -9 "$driver""#;
const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';

/// Keys that have no letter.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    Tab,
    Enter,
    Letter(char),
}

/// How the page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

/// A browser with one window.
pub struct Browser<'a> {
    node: &'a Namespace,
    leash: Child,
    session: String,
    profile: tempfile::TempDir,
}

/// Whether there is all that the tests of the page need. If not, says why, or fails under `CI=true`.
pub fn or_skip() -> bool {
    if !netns::or_skip() {
        return false;
    }
    let is_there = |program: &str| {
        env::var_os("PATH")
            .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(program).exists()))
    };
    let missing = if !is_there("chromium") || !is_there("chromedriver") {
        "chromium and chromedriver are not there (on Debian: the packages chromium and chromium-driver)"
            .to_owned()
    } else if !axe_path().exists() {
        format!("{} is not there; scripts/axe fetches it", axe_path().display())
    } else {
        return true;
    };
    assert!(env::var("CI").as_deref() != Ok("true"), "no browser under CI=true: {missing}");
    eprintln!("skipped: {missing}");
    false
}

fn axe_path() -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/ferrule");
    env::var_os("FERRULE_CACHE").map_or_else(home, PathBuf::from).join("axe-core-4.14.0/axe.min.js")
}

impl<'a> Browser<'a> {
    pub fn start(node: &'a Namespace) -> Self {
        let profile = tempfile::tempdir().expect("a folder");
        let driver = || {
            let mut command = Command::new("sh");
            command.args(["-c", LEASH, "leash", "chromedriver", &format!("--port={PORT}")]);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        let leash = node.run(driver).expect("the node").expect("chromedriver starts");
        let mut browser = Self { node, leash, session: String::new(), profile };
        until(|| browser.request("GET", "/status", &Value::Null).ok());
        let profile = format!("--user-data-dir={}", browser.profile.path().display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--no-first-run",
            "--disable-background-networking",
            // Nothing is looked up: the world of the test has no name server, and to find that out takes half a minute.
            "--no-proxy-server",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            &profile,
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let answer = browser.request("POST", "/session", &wanted).expect("a session");
        browser.session.push_str(answer["sessionId"].as_str().expect("an id"));
        browser.view(Scheme::Light, (1280, 860));
        browser
    }

    pub fn open(&self, path: &str) {
        let url = format!("http://127.0.0.1:10249{path}");
        self.command("POST", "url", &json!({ "url": url }));
    }

    /// Loads a view, and waits until it shows this.
    pub fn show(&self, path: &str, text: &str) {
        // The part behind # alone would not load anything.
        self.command("POST", "url", &json!({ "url": "about:blank" }));
        self.open(path);
        self.wait_for(text);
    }

    /// Runs a script; its value is what it returns.
    pub fn run(&self, script: &str) -> Value {
        self.command("POST", "execute/sync", &json!({ "script": script, "args": [] }))
    }

    pub fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page shows a text.
    pub fn wait_for(&self, text: &str) {
        self.wait_until(&format!(
            "return document.getElementById('main')?.innerText.includes({})",
            json!(text)
        ));
    }

    /// Waits until a script returns true.
    pub fn wait_until(&self, script: &str) {
        let waiting = format!(
            "const done = arguments[0]; const end = Date.now() + {};
             const isSo = () => {{ {script} }};
             const poll = () => isSo() === true ? done(null)
                 : Date.now() > end ? done(document.body.innerText) : setTimeout(poll, 20);
             poll();",
            PATIENCE.as_millis()
        );
        let shown = self.command("POST", "execute/async", &json!({ "script": waiting, "args": [] }));
        assert!(shown.is_null(), "{script}:\n{}", shown.as_str().unwrap_or_default());
    }

    pub fn press(&self, key: Key) {
        let value = match key {
            Key::Tab => TAB,
            Key::Enter => ENTER,
            Key::Letter(letter) => letter,
        };
        let value = value.to_string();
        let actions =
            [json!({ "type": "keyDown", "value": value }), json!({ "type": "keyUp", "value": value })];
        let keys = json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] });
        self.command("POST", "actions", &keys);
    }

    pub fn write(&self, text: &str) {
        text.chars().for_each(|letter| self.press(Key::Letter(letter)));
    }

    /// Sets colours and size.
    pub fn view(&self, scheme: Scheme, (width, height): (u32, u32)) {
        let value = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Problems that axe calls serious or critical, a line each.
    pub fn accessibility_problems(&self) -> Vec<String> {
        let axe = fs::read_to_string(axe_path()).expect("axe");
        self.command("POST", "execute/sync", &json!({ "script": axe + "\nwindow.axe = axe;", "args": [] }));
        let script = "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(found => done(found.violations), error => done(String(error)))";
        let found = self.command("POST", "execute/async", &json!({ "script": script, "args": [] }));
        assert!(found.is_array(), "axe failed: {found}");
        let found = found.as_array().cloned().unwrap_or_default();
        let is_serious =
            |one: &&Value| ["serious", "critical"].contains(&one["impact"].as_str().unwrap_or("serious"));
        let line = |one: &Value| format!("{}: {} {}", one["id"], one["help"], one["nodes"][0]["html"]);
        found.iter().filter(is_serious).map(line).collect()
    }

    /// What the browser complained about since the last time: errors of scripts, violations of the policy, what failed to load.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.command("POST", "se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().cloned().unwrap_or_default();
        let is_complaint =
            |entry: &&Value| ["SEVERE", "WARNING"].contains(&entry["level"].as_str().unwrap_or_default());
        entries.iter().filter(is_complaint).map(|entry| entry["message"].to_string()).collect()
    }

    /// Writes what is seen as a PNG.
    pub fn picture(&self, file: &std::path::Path) {
        let picture = self.command("GET", "screenshot", &Value::Null);
        fs::write(file, decoded(picture.as_str().expect("base64"))).expect("a picture");
    }

    fn devtools(&self, command: &str, parameters: &Value) {
        self.command("POST", "goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
    }

    fn command(&self, method: &str, command: &str, body: &Value) -> Value {
        let answer = self.request(method, &format!("/session/{}/{command}", self.session), body);
        answer.map_err(|error| format!("{command}: {error}")).expect("the browser obeys")
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> io::Result<Value> {
        self.node.run(|| request(method, path, body)).map_err(io::Error::other)?
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        // So that the browser is gone before its profile is removed.
        let _ = self.request("DELETE", &format!("/session/{}", self.session), &Value::Null);
        drop(self.leash.stdin.take());
        let _ = self.leash.wait();
    }
}

fn request(method: &str, path: &str, body: &Value) -> io::Result<Value> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let body = if method == "POST" { body.to_string() } else { String::new() };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost:{PORT}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while {
        line.clear();
        reader.read_line(&mut line)?
    } > 2
    {
        let value = line.to_ascii_lowercase();
        length =
            value.strip_prefix("content-length:").map_or(length, |text| text.trim().parse().unwrap_or(0));
    }
    let mut answer = vec![0; length];
    reader.read_exact(&mut answer)?;
    let answer: Value = serde_json::from_slice(&answer)?;
    match answer["value"]["error"].as_str() {
        None => Ok(answer["value"].clone()),
        Some(error) => Err(io::Error::other(format!("{error}: {}", answer["value"]["message"]))),
    }
}

/// Base64, which pictures come in.
fn decoded(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| ALPHABET.iter().position(|letter| *letter == byte));
    let (mut bits, mut held, mut out) = (0, 0, Vec::new());
    for digit in digits {
        held = held << 6 | digit;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from(held >> bits & 0xff).expect("eight bits"));
        }
        held &= 0xfff;
    }
    out
}
