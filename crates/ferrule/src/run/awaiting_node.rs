//! The loop before this node's object is known: what the API server sends is kept, and nothing is served yet.

use std::time::{Duration, Instant};

use ferrule_model::{Change, Node, NodeName, ObjectKind};
use tracing::{error, info};

use super::Event;
use super::serving::Serving;
use super::start::{StartError, Starting};
use ferrule_config::resolve::{NodeAddresses, NodeStart, NodeWait};

/// How often the wait is checked while no event comes in.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Waits for this node's object, as long as kube-proxy does.
pub(super) struct AwaitingNode {
    wait: NodeWait,
    name: NodeName,
    /// Whether a Node that is missing now may still come: not in a folder of manifests.
    is_waited_for: bool,
    listed_at: Option<Instant>,
    node: Option<Node>,
    /// What came meanwhile, for the loop that serves.
    held: Vec<Event>,
    starting: Starting,
}

impl AwaitingNode {
    pub(super) fn new(starting: Starting, is_waited_for: bool) -> Self {
        let name = starting.name.clone();
        let wait = NodeWait::new(name.clone(), &starting.settings.detect_local);
        Self { wait, name, is_waited_for, listed_at: None, node: None, held: Vec::new(), starting }
    }

    pub(super) fn handle(&mut self, event: Event) {
        match &event {
            Event::Changes(batch) => {
                for change in &batch.changes {
                    if let Change::Node(node) = change {
                        self.node.clone_from(node);
                    }
                }
            }
            Event::InSync(ObjectKind::Node) => self.listed_at = Some(Instant::now()),
            Event::InSync(_)
            | Event::Trouble(_)
            | Event::Recovered(_)
            | Event::Drift(_)
            | Event::VerifyRules(_)
            | Event::AddressesChanged
            | Event::Reload(_)
            | Event::Inspect(_)
            | Event::Diff(_)
            | Event::End(_) => {}
        }
        self.held.push(event);
    }

    /// What the Node says, once it is time to go on.
    pub(super) fn node(&mut self) -> Result<Option<NodeAddresses>, StartError> {
        let Some(listed_at) = self.listed_at else { return Ok(None) };
        let start = if self.is_waited_for {
            self.wait.observe(listed_at.elapsed(), self.node.as_ref())?
        } else {
            NodeStart::Ready(self.node.as_ref().map(NodeAddresses::from_node).unwrap_or_default())
        };
        Ok(match start {
            NodeStart::Wait => None,
            NodeStart::Ready(facts) => {
                self.log(&facts);
                Some(facts)
            }
        })
    }

    /// Begins to serve, with what came in so far.
    pub(super) fn serve(self, node: &NodeAddresses) -> Result<Serving, StartError> {
        let mut serving = self.starting.serve(node)?;
        for event in self.held {
            serving.handle(event);
        }
        Ok(serving)
    }

    fn log(&self, facts: &NodeAddresses) {
        let name = &self.name;
        if !facts.host_ips.is_empty() {
            let addresses: Vec<String> = facts.host_ips.iter().map(ToString::to_string).collect();
            info!(node = %name, addresses = addresses.join(", "), "Node");
        } else if self.node.is_some() {
            error!(node = %name, "The Node has no addresses, going on without; --bind-address can name one");
        } else {
            error!(node = %name, "There is no such Node, going on without its addresses; is --hostname-override right?");
        }
    }
}
