//! A directory of manifests: what is read, which changes are reported, and how soon.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ferrule_model::{Change, NodeName};
use ferrule_watch::file::manifest::{self, Manifest, Object};
use ferrule_watch::file::{ManifestFolder, Reading};
use proptest::prelude::*;
use tempfile::TempDir;

const AT_ONCE: Duration = Duration::ZERO;
const SOON: Duration = Duration::from_secs(10);

fn service(name: &str, ip: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  clusterIP: {ip}\n  ports:\n  - port: 80\n"
    )
}

fn slice(name: &str, ip: &str) -> String {
    format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}-1\n  labels:\n    \
         kubernetes.io/service-name: {name}\naddressType: IPv4\nports:\n- port: 8080\nendpoints:\n- addresses: [{ip}]\n  \
         nodeName: a\n"
    )
}

fn node(name: &str) -> String {
    format!(
        "kind: Node\nmetadata:\n  name: {name}\nstatus:\n  addresses:\n  - type: InternalIP\n    address: 192.0.2.10\n"
    )
}

const RANGE: &str = "kind: ServiceCIDR\nmetadata:\n  name: kubernetes\nspec:\n  cidrs: [10.96.0.0/12]\n";

fn endpoints(name: &str, ip: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Endpoints\nmetadata:\n  name: {name}\nsubsets:\n- addresses: [{{ip: {ip}, nodeName: a}}]\n  \
         ports: [{{port: 8080}}]\n"
    )
}

/// A folder and what watches it.
struct Lab {
    folder: TempDir,
    manifests: ManifestFolder,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let manifests = ManifestFolder::open(folder.path(), NodeName::new("a")).expect("a watch");
        Self { folder, manifests }
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.path().join(file), text).expect("a file");
    }

    fn delete(&self, file: &str) {
        fs::remove_file(self.folder.path().join(file)).expect("no file");
    }

    /// Waits for a change, and reads it.
    fn read(&mut self) -> Reading {
        assert!(self.manifests.wait(SOON).expect("a wait"), "no change was noticed");
        self.manifests.read()
    }

    /// The changes in a few words, after nothing was found wrong.
    fn changes(&mut self) -> Vec<String> {
        let reading = self.read();
        assert_eq!((problems(&reading), reading.batch.diagnostics.len()), (vec![], 0));
        said(&reading)
    }
}

fn said(reading: &Reading) -> Vec<String> {
    let word = |is_there: bool| if is_there { "put" } else { "gone" };
    let said = reading.batch.changes.iter().map(|change| match change {
        Change::Service(name, service) => format!("{} service {name}", word(service.is_some())),
        Change::Slice(name, slice, _) => format!("{} slice {name}", word(slice.is_some())),
        Change::Endpoints(name, slices, _) => format!("{} endpoints {name}", word(!slices.is_empty())),
        Change::Node(node) => format!("{} node", word(node.is_some())),
        Change::ServiceCidr(name, blocks) => format!("{} range {name}", word(blocks.is_some())),
    });
    said.collect()
}

/// The problems, with the folder left out.
fn problems(reading: &Reading) -> Vec<String> {
    let line = |problem: &ferrule_watch::file::FileProblem| {
        let folder = problem.file.parent().unwrap_or(Path::new("")).display().to_string() + "/";
        problem.to_string().replace(&folder, "")
    };
    reading.problems.iter().map(line).collect()
}

#[test]
fn all_kinds_in_all_forms_are_read() {
    let mut lab = Lab::new();
    let documents =
        [service("web", "10.96.0.10"), slice("web", "10.244.1.5"), node("a"), node("b"), RANGE.into()];
    lab.write("a.yaml", &format!("# A comment.\n---\n{}---\n", documents.join("--- # more\n")));
    lab.write(
        "b.yml",
        &format!("kind: List\nitems:\n- {}", service("listed", "10.96.0.11").replace('\n', "\n  ")),
    );
    lab.write(
        "c.json",
        r#"{"kind": "ServiceList", "items": [{"kind": "Service", "metadata": {"name": "json", "namespace": "shop"},
            "spec": {"clusterIPs": ["10.96.0.12", "fd00:96::12"], "ports": [{"port": 80}]}}]}"#,
    );
    lab.write(".hidden.yaml", &service("hidden", "10.96.0.13"));
    lab.write("notes.txt", "not a manifest");
    let reading = lab.read();
    assert_eq!(problems(&reading), [""; 0]);
    assert_eq!(
        said(&reading),
        [
            "put service default/web",
            "put slice default/web-1",
            "put node",
            "put range kubernetes",
            "put service default/listed",
            "put service shop/json"
        ]
    );
    let Some(Change::Service(_, Some(json))) = reading.batch.changes.last() else { panic!("no service") };
    assert_eq!(json.cluster_ips.iter().count(), 2);
    assert_eq!(lab.manifests.read(), Reading::default(), "nothing has changed");
}

#[test]
fn only_what_differs_is_reported() {
    let mut lab = Lab::new();
    lab.write("a.yaml", &format!("{}---\n{}", service("web", "10.96.0.10"), service("api", "10.96.0.11")));
    lab.write("b.yaml", &slice("web", "10.244.1.5"));
    assert_eq!(lab.changes().len(), 3);
    lab.write("a.yaml", &format!("{}---\n{}", service("web", "10.96.0.10"), service("api", "10.96.0.99")));
    assert_eq!(lab.changes(), ["put service default/api"]);
    lab.write("a.yaml", &service("web", "10.96.0.10"));
    assert_eq!(lab.changes(), ["gone service default/api"]);
    lab.delete("b.yaml");
    assert_eq!(lab.changes(), ["gone slice default/web-1"]);
    fs::rename(lab.folder.path().join("a.yaml"), lab.folder.path().join("z.yaml")).unwrap();
    assert_eq!(lab.changes(), [""; 0], "the same object in another file is no change");
}

#[test]
fn a_file_that_is_written_aside_and_renamed_is_read() {
    let mut lab = Lab::new();
    lab.write("a.yaml", &service("web", "10.96.0.10"));
    lab.changes();
    for round in 11..31 {
        lab.write(".a.yaml.new", &service("web", &format!("10.96.0.{round}")));
        fs::rename(lab.folder.path().join(".a.yaml.new"), lab.folder.path().join("a.yaml")).unwrap();
        assert_eq!(lab.changes(), ["put service default/web"], "round {round}");
    }
}

#[test]
fn a_broken_file_keeps_its_objects_and_tells_its_line() {
    let mut lab = Lab::new();
    let good = format!("{}---\n{}", service("web", "10.96.0.10"), service("api", "10.96.0.11"));
    lab.write("a.yaml", &good);
    lab.write("b.yaml", &service("other", "10.96.0.12"));
    assert_eq!(lab.changes().len(), 3);
    // The last line of the second document: its port is a word.
    lab.write("a.yaml", &good.replace("- port: 80\n", "- port: eighty\n").replacen("eighty", "80", 1));
    lab.write("b.yaml", &service("other", "10.96.0.13"));
    let reading = lab.read();
    assert_eq!(said(&reading), ["put service default/other"]);
    let reported = problems(&reading);
    assert!(reported.len() == 1 && reported[0].starts_with("a.yaml:17: "), "{reported:?}");
    assert!(reported[0].ends_with("; the file's objects stay as they were"), "{reported:?}");
    lab.write("a.yaml", &good);
    assert_eq!(lab.changes(), [""; 0], "mended as it was");
    lab.write("a.yaml", "kind: Service\nmetadata: [\n");
    assert_eq!(problems(&lab.read()).len(), 1);
    lab.delete("a.yaml");
    assert_eq!(lab.changes(), ["gone service default/api", "gone service default/web"]);
}

#[test]
fn errors_are_reported_with_their_line() {
    let fault = |text: &str| manifest::yaml(text).unwrap_err().to_string();
    assert!(fault("\n\nmetadata: {}\n").contains("kind"), "{}", fault("\n\nmetadata: {}\n"));
    let tabbed = fault("kind: Service\nspec:\n\tports: 1\n");
    assert!(tabbed.starts_with("line 3: "), "{tabbed}");
    let second = fault("kind: Node\n---\nkind: Service\nkind: Service\n");
    assert!(second.starts_with("line 4: "), "{second}");
    let listed = "kind: List\nitems:\n- kind: Node\n- kind: Service\n  metadata: {name: web}\n  spec: 7\n";
    assert!(fault(listed).starts_with("line 4: in the list's Service web: "), "{}", fault(listed));
    let json = manifest::json("{\n\"kind\": \"Service\",\n\"spec\": 7}").unwrap_err();
    assert_eq!(json.line, 3);
}

#[test]
fn of_two_files_with_the_same_object_the_first_counts() {
    let mut lab = Lab::new();
    lab.write("b.yaml", &service("web", "10.96.0.20"));
    assert_eq!(lab.changes(), ["put service default/web"]);
    lab.write("a.yaml", &service("web", "10.96.0.10"));
    let reading = lab.read();
    assert_eq!(said(&reading), ["put service default/web"]);
    let reported = problems(&reading);
    assert_eq!(reported.len(), 1);
    assert!(reported[0].starts_with("b.yaml:1: Service default/web is already in "), "{reported:?}");
    lab.write("c.yaml", &service("other", "10.96.0.30"));
    assert_eq!(lab.changes(), ["put service default/other"], "reported once");
    lab.delete("a.yaml");
    let reading = lab.read();
    assert_eq!(said(&reading), ["put service default/web"], "now the second one counts");
    let Some(Change::Service(_, Some(web))) = reading.batch.changes.first() else { panic!("no service") };
    assert!(web.cluster_ips.iter().any(|(_, ip)| ip.to_string() == "10.96.0.20"));
}

#[test]
fn other_kinds_are_noted_once_and_services_without_an_address_are_reported() {
    let mut lab = Lab::new();
    lab.write(
        "a.yaml",
        "kind: Deployment\n---\nkind: Deployment\n---\nkind: Service\nmetadata: {name: web}\n",
    );
    let reading = lab.read();
    assert_eq!(
        problems(&reading),
        [
            "a.yaml:1: kind \"Deployment\" is not used by a proxy, ignored",
            "a.yaml:5: Service default/web has no clusterIP, and none is allocated here; not served"
        ]
    );
    assert_eq!(
        reading.problems.iter().map(ferrule_watch::file::FileProblem::is_note).collect::<Vec<_>>(),
        [true, false]
    );
    lab.write("b.yaml", "kind: Deployment\n");
    assert_eq!(problems(&lab.read()), [""; 0]);
}

#[test]
fn a_mounted_config_map_is_followed() {
    let mut lab = Lab::new();
    let folder = lab.folder.path().to_path_buf();
    let version = |name: &str, ip: &str| {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("web.yaml"), service("web", ip)).unwrap();
        symlink(name, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    version("..first", "10.96.0.10");
    symlink("..data/web.yaml", folder.join("web.yaml")).unwrap();
    assert_eq!(lab.changes(), ["put service default/web"]);
    version("..second", "10.96.0.11");
    assert_eq!(lab.changes(), ["put service default/web"]);
}

#[test]
fn a_folder_that_goes_and_comes_back_is_followed() {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("manifests");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("a.yaml"), service("web", "10.96.0.10")).unwrap();
    let mut manifests = ManifestFolder::open(&path, NodeName::new("a")).unwrap();
    assert_eq!(said(&manifests.read()), ["put service default/web"]);
    fs::remove_dir_all(&path).unwrap();
    let reading = manifests.read();
    assert_eq!(
        (said(&reading).len(), reading.problems.len()),
        (0, 1),
        "without a folder all stays as it was"
    );
    fs::create_dir(&path).unwrap();
    assert_eq!(said(&manifests.read()), ["gone service default/web"]);
    manifests.drain().unwrap();
    fs::write(path.join("a.yaml"), service("web", "10.96.0.10")).unwrap();
    assert!(manifests.wait(SOON).unwrap(), "the new folder is watched");
    let missing =
        ManifestFolder::open(outer.path().join("missing"), NodeName::new("a")).unwrap_err().to_string();
    assert!(missing.starts_with("watching the folder "), "{missing}");
}

#[test]
fn changes_are_noticed_within_milliseconds_and_together() {
    let mut lab = Lab::new();
    assert!(!lab.manifests.wait(AT_ONCE).unwrap(), "nothing has happened yet");
    let path = lab.folder.path().to_path_buf();
    let writer = thread::spawn(move || {
        for number in 1..=50 {
            let text = service(&format!("web{number}"), &format!("10.96.0.{number}"));
            fs::write(path.join(format!("{number}.yaml")), text).unwrap();
        }
        Instant::now()
    });
    assert!(lab.manifests.wait(SOON).unwrap());
    let noticed = Instant::now();
    let written = writer.join().unwrap();
    println!("noticed {:?} after the last of 50 files", noticed.saturating_duration_since(written));
    let mut found = lab.manifests.read().batch.changes.len();
    let mut readings = 1;
    while lab.manifests.wait(Duration::from_millis(50)).unwrap() && readings < 50 {
        found += lab.manifests.read().batch.changes.len();
        readings += 1;
    }
    println!("{readings} readings");
    assert_eq!(found, 50);
    assert!(lab.manifests.as_fd().try_clone_to_owned().is_ok());
}

#[test]
fn bytes_that_are_no_text_and_entries_that_are_no_files_do_no_harm() {
    let mut lab = Lab::new();
    fs::write(lab.folder.path().join("a.yaml"), b"kind: Service\nmetadata:\n  name: \xff\xfe\n").unwrap();
    fs::create_dir(lab.folder.path().join("folder.yaml")).unwrap();
    symlink("nowhere", lab.folder.path().join("link.yaml")).unwrap();
    lab.write("empty.yaml", "");
    lab.write("empty.json", "");
    let reported = problems(&lab.read());
    assert_eq!(reported[0], "a.yaml:3: bytes that are not UTF-8; the file's objects stay as they were");
    assert!(reported.len() == 2 && reported[1].starts_with("empty.json:1: "), "{reported:?}");
}

#[test]
fn ten_thousand_objects_are_read_in_a_moment() {
    let mut lab = Lab::new();
    let address =
        |number: usize| format!("10.{}.{}.{}", 96 + number / 65536, number / 256 % 256, number % 256);
    let services = (0..5000).map(|number| service(&format!("s{number}"), &address(number)));
    lab.write("services.yaml", &services.collect::<Vec<_>>().join("---\n"));
    let slices = (0..5000).map(|number| slice(&format!("s{number}"), &address(number)));
    lab.write("slices.yaml", &slices.collect::<Vec<_>>().join("---\n"));
    let started = Instant::now();
    assert_eq!(lab.manifests.read().batch.changes.len(), 10_000);
    println!("10,000 objects in two files: {:?}", started.elapsed());
    lab.write("z.yaml", &service("one-more", "10.99.0.1"));
    while lab.manifests.wait(Duration::from_millis(60)).unwrap() {}
    lab.manifests.read();
    lab.write("z.yaml", &service("one-more", "10.99.0.2"));
    let started = Instant::now();
    assert_eq!(lab.manifests.read().batch.changes.len(), 1);
    println!("one of them beside 10,000: {:?}", started.elapsed());
}

fn kinds(manifests: &[Manifest]) -> Vec<&str> {
    let kind = |manifest: &Manifest| match &manifest.object {
        Object::Service(_) => "Service",
        Object::EndpointSlice(_) => "EndpointSlice",
        Object::Endpoints(_) => "Endpoints",
        Object::Node(_) => "Node",
        Object::ServiceCidr(_) => "ServiceCIDR",
        Object::Other(_) => "other",
    };
    manifests.iter().map(kind).collect()
}

#[test]
fn only_lines_of_their_own_set_documents_apart() {
    let text = "---\nkind: Node\nmetadata:\n  name: \"a\n    --- b\"\n---\n\n# nothing\n---\r\nkind: Service\r\n----x: 1\n";
    let read = manifest::yaml(text).unwrap();
    assert_eq!(kinds(&read), ["Node", "Service"]);
    assert_eq!(read.iter().map(|manifest| manifest.line).collect::<Vec<_>>(), [2, 10]);
}

proptest! {
    #[test]
    fn odd_text_never_panics(
        text in prop_oneof![
            any::<String>(),
            "(kind: |Service|List|\n|items:|- |---|\t|\\{|\\}|\\[|\\]|:|&a |\\*a|!!binary |'|\"|\\||>|metadata|null|~|<<|#|\u{feff}| |0x1|1e9){0,40}",
        ],
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = manifest::yaml(&text);
        let _ = manifest::json(&text);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.yaml"), &bytes).unwrap();
        fs::write(folder.path().join("b.json"), &bytes).unwrap();
        fs::write(folder.path().join("c.yaml"), &text).unwrap();
        let mut manifests = ManifestFolder::open(folder.path(), NodeName::new("a")).unwrap();
        manifests.read();
        manifests.read();
    }
}

/// A dump of a cluster has both; the slices count, and the operator hears of it only if the two differ.
#[test]
fn endpoints_are_used_where_a_service_has_no_slices() {
    let mut lab = Lab::new();
    lab.write("web.yaml", &service("web", "10.96.0.1"));
    lab.write("endpoints.yaml", &endpoints("web", "10.244.1.5"));
    assert_eq!(lab.changes(), ["put endpoints default/web", "put service default/web"]);

    // Slices that say the same take over without a word.
    lab.write("slice.yaml", &slice("web", "10.244.1.5"));
    assert_eq!(lab.changes(), ["put slice default/web-1", "gone endpoints default/web"]);

    // Others are used, too, but that is worth a word, once.
    lab.write("slice.yaml", &slice("web", "10.244.1.6"));
    let reading = lab.read();
    assert_eq!(said(&reading), ["put slice default/web-1"]);
    assert_eq!(
        problems(&reading),
        [
            "endpoints.yaml:1: Endpoints default/web and the Service's EndpointSlices have different ready endpoints; the \
          EndpointSlices are used, remove whichever is out of date"
        ]
    );
    lab.write("web.yaml", &service("web", "10.96.0.2"));
    assert_eq!(lab.changes(), ["put service default/web"]);

    lab.delete("slice.yaml");
    assert_eq!(lab.changes(), ["put endpoints default/web", "gone slice default/web-1"]);
    lab.delete("endpoints.yaml");
    assert_eq!(lab.changes(), ["gone endpoints default/web"]);
}
