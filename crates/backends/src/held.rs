//! What the kernel holds for one frontend, and what of it is not as planned.

use ferrule_plan::{FamilyPlan, FrontendKey, PoolScope};

use crate::Patch;

/// What the kernel holds for one frontend, in the words of the tool that operators know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldFrontend {
    /// What is there, as planned. Empty where a mode cannot list it apart from other Services' rules.
    pub holds: Vec<String>,
    /// What is not there, as a sync would write it.
    pub missing: Vec<String>,
    /// What is there and should not be, or not like this.
    pub differing: Vec<String>,
}

/// How a line begins that writes something new.
const ADDING: [&str; 7] =
    ["-A ", ":", "ipvsadm -A ", "ipvsadm -a ", "ipset add ", "ipset create ", "ip address add "];

/// What names a Service in lines of all modes.
const OF_A_SERVICE: [&str; 9] = [
    "KUBE-SVC-",
    "KUBE-SVL-",
    "KUBE-SEP-",
    "KUBE-EXT-",
    "KUBE-FW-",
    "ipvsadm ",
    "ipset add ",
    "ipset del ",
    "ip address ",
];

/// What frames the lines of `iptables-restore`.
const FRAME: [&str; 3] = ["*", "#", "COMMIT"];

impl HeldFrontend {
    /// The part of a patch that is about a frontend, or about what all frontends share. `names` are further words for it, such as
    /// its chains.
    pub(crate) fn from_patch(
        patch: &Patch,
        plan: &FamilyPlan,
        key: Option<&FrontendKey>,
        names: &[String],
    ) -> Self {
        let words: Vec<String> =
            key.map(|key| words(plan, key)).into_iter().flatten().chain(names.iter().cloned()).collect();
        let mut held = Self::default();
        for line in patch.lines.iter().filter(|line| is_about(line, &words)) {
            let is_adding = ADDING.iter().any(|start| line.starts_with(start));
            if is_adding { held.missing.push(line.clone()) } else { held.differing.push(line.clone()) }
        }
        held
    }

    /// Whether the kernel holds the plan.
    pub fn agrees(&self) -> bool {
        self.missing.is_empty() && self.differing.is_empty()
    }
}

fn is_about(line: &str, words: &[String]) -> bool {
    if FRAME.iter().any(|start| line.starts_with(start)) {
        return false;
    }
    // Comments that name a Service have its namespace before a slash.
    let comment = line.split_once("--comment \"").and_then(|(_, rest)| rest.split_once('"'));
    let names_a_service = comment.is_some_and(|(comment, _)| comment.contains('/'));
    words.iter().any(|word| has_word(line, word))
        || !names_a_service && !OF_A_SERVICE.iter().any(|word| line.contains(word))
}

/// Whether a word stands in a line, not as a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let ends =
        |rest: &str| rest.chars().next().is_none_or(|next| !next.is_ascii_alphanumeric() && next != '.');
    let begins =
        |before: &str| before.chars().last().is_none_or(|last| !last.is_ascii_alphanumeric() && last != '.');
    line.match_indices(word).any(|(at, _)| begins(&line[..at]) && ends(&line[at + word.len()..]))
}

/// The frontend, its owner, and its endpoints in sets, as lines write them.
fn words(plan: &FamilyPlan, key: &FrontendKey) -> Vec<String> {
    let mut words = match key {
        FrontendKey::Address(ip, protocol, port) => vec![
            std::net::SocketAddr::new(*ip, *port).to_string(),
            format!("{ip},{protocol}:{port}"),
            format!("ip address add {ip}"),
        ],
        FrontendKey::UnmatchedPorts(ip) => vec![ip.to_string()],
        FrontendKey::NodePort(protocol, port) | FrontendKey::LoopbackNodePort(protocol, port) => {
            vec![format!("{protocol}:{port}"), format!(":{port} ")]
        }
    };
    let Some(frontend) = plan.frontend(key) else { return words };
    let owner = &frontend.owner;
    words.push(owner.to_string());
    for scope in [PoolScope::Cluster, PoolScope::Local] {
        let endpoints = plan.pool(owner, scope).into_iter().flat_map(|pool| pool.endpoints.iter());
        // As in a set. Elsewhere an endpoint does not name a Service: several may have it.
        words.extend(endpoints.map(|found| format!("{},{}:{}", found.ip, owner.protocol, found.port)));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_services_do_not_count() {
        let words = ["10.96.0.1:80".to_owned(), "default/web:http".to_owned(), "KUBE-SVC-AAAA".to_owned()];
        for (line, is_ours) in [
            ("*nat", false),
            ("COMMIT", false),
            ("-A KUBE-SERVICES -m comment --comment \"default/web:http cluster IP\" -d 10.96.0.1/32", true),
            ("-A KUBE-SERVICES -m comment --comment \"default/web:https cluster IP\" -d 10.96.0.1/32", false),
            (":KUBE-SVC-AAAA - [0:0]", true),
            (":KUBE-SVC-BBBB - [0:0]", false),
            ("-A KUBE-POSTROUTING -m comment --comment \"kubernetes traffic\" -j MASQUERADE", true),
            ("ipvsadm -A -t 10.96.0.1:80 -s rr", true),
            ("ipvsadm -A -t 10.96.0.1:8080 -s rr", false),
            ("ipvsadm -a -t 110.96.0.1:80 -r 10.0.0.1:80", false),
        ] {
            assert_eq!(is_about(line, &words), is_ours, "{line}");
        }
    }
}
