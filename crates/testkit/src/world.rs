//! A small cluster to plan for, described in the language of stories.
//!
//! Lines → API objects → converters → [`Cluster`] → plan: the same path as in the program. `stories/README.md` describes
//! the language; [`World::objects`] takes YAML for whatever it cannot express.

mod dsl;
mod objects;

use std::collections::BTreeMap;
use std::fmt;

use ferrule_model::{Change, Cluster, Diagnostic, IpFamily, PerFamily, Touched};
use ferrule_plan::{FamilyPlan, NodePlan, NodeView, Outcome, Packet, PlanDelta, outcome, plan, replan};
use ferrule_watch::api;
use ferrule_watch::convert::{self, Converted};

use dsl::endpoint::{StatedEndpoint, slices_of};
use dsl::service::StatedService;
use dsl::tokens::{Tokens, namespaced};

/// A cluster, a node, and the plan for it.
#[derive(Clone, Debug)]
pub struct World {
    /// How the proxy is run.
    pub view: NodeView,
    /// What was distilled so far.
    pub cluster: Cluster,
    /// The plan for it, once something was planned.
    pub plan: NodePlan,
    /// Whether the view lists the NodePort addresses and detection itself, or the node's tokens decide.
    pub(crate) detection_is_stated: bool,
    node: api::Node,
    services: BTreeMap<String, StatedService>,
    endpoints: Vec<StatedEndpoint>,
    touched: Touched,
    diagnostics: Vec<Diagnostic>,
}

/// What one step did.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// What was touched.
    pub touched: Touched,
    /// What the plan changed by, per family.
    pub deltas: PerFamily<PlanDelta>,
    /// What could not be used, in the objects and in planning, sorted.
    pub diagnostics: Vec<Diagnostic>,
}

/// A line that says nothing we understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldError {
    /// The line, counted from 1 in the text given.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for WorldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for WorldError {}

impl Default for World {
    fn default() -> Self {
        Self {
            view: NodeView::new(ferrule_model::NodeName::new("")),
            cluster: Cluster::default(),
            plan: NodePlan::default(),
            detection_is_stated: false,
            node: api::Node::default(),
            services: BTreeMap::new(),
            endpoints: Vec::new(),
            touched: Touched::default(),
            diagnostics: Vec::new(),
        }
    }
}

impl World {
    /// A world described by cluster lines, already planned.
    pub fn of(text: &str) -> Result<Self, WorldError> {
        let mut world = Self::default();
        world.say(text)?;
        world.settle();
        Ok(world)
    }

    /// How the proxy is run, a setting a line.
    pub fn run_proxy(&mut self, text: &str) -> Result<(), WorldError> {
        each_line(text, |tokens| dsl::proxy::setting(self, tokens))?;
        self.touched.node = true;
        Ok(())
    }

    /// States facts about the cluster, or takes them back, a line each.
    pub fn say(&mut self, text: &str) -> Result<(), WorldError> {
        each_line(text, |tokens| self.statement(tokens))
    }

    /// Puts Kubernetes objects written in YAML, several documents in a row.
    pub fn objects(&mut self, yaml: &str) -> Result<(), WorldError> {
        for converted in objects::converted(yaml, &self.view.name)? {
            self.take(converted);
        }
        Ok(())
    }

    /// Plans what was said since the last time.
    pub fn settle(&mut self) -> Step {
        let touched = std::mem::take(&mut self.touched);
        let mut diagnostics = std::mem::take(&mut self.diagnostics);
        let (deltas, found) = replan(&mut self.plan, &self.cluster, &touched, &self.view);
        diagnostics.extend(found);
        diagnostics.sort();
        diagnostics.dedup();
        Step { touched, deltas, diagnostics }
    }

    /// Says, plans, and tells what changed.
    pub fn then(&mut self, text: &str) -> Result<Step, WorldError> {
        self.say(text)?;
        Ok(self.settle())
    }

    /// The plan made afresh, which must be the one at hand.
    pub fn fresh_plan(&self) -> NodePlan {
        plan(&self.cluster, &self.view).0
    }

    /// One family's plan.
    pub fn family(&self, family: IpFamily) -> Option<&FamilyPlan> {
        self.plan.families.get(family)
    }

    /// What becomes of a packet; a family that is not served is left untouched.
    pub fn outcome(&self, packet: &Packet) -> Outcome {
        let plan = self.family(IpFamily::of(packet.to));
        plan.map_or(Outcome::Untouched, |plan| outcome(plan, packet))
    }

    /// The stated Services and their slices, as the API server would have them.
    pub fn stated(&self) -> (Vec<&api::Service>, Vec<api::EndpointSlice>) {
        let services = self.services.values().map(|service| &service.object).collect();
        let mut owners: Vec<&str> = self.endpoints.iter().map(|endpoint| endpoint.service.as_str()).collect();
        owners.sort_unstable();
        owners.dedup();
        let slices = |owner: &str| slices_of(owner, self.services.get(owner), &self.endpoints);
        (services, owners.into_iter().flat_map(slices).collect())
    }

    /// The node as it was stated last.
    pub fn stated_node(&self) -> &api::Node {
        &self.node
    }

    /// Applies one change, for tests that speak the model's language.
    pub fn apply(&mut self, change: Change) -> Touched {
        let touched = self.cluster.apply(change).touched;
        self.touched.merge(touched.clone());
        touched
    }

    fn statement(&mut self, tokens: &mut Tokens<'_>) -> Result<(), String> {
        match tokens.next() {
            Some("service") => self.put_service(tokens),
            Some("endpoint") => self.put_endpoint(tokens),
            Some("node") => dsl::node::node(self, tokens),
            Some("serviceCIDR") => dsl::node::service_cidr(self, tokens),
            Some("gone") => self.take_back(tokens),
            Some(other) => {
                Err(format!("unknown word \"{other}\" (service, endpoint, node, serviceCIDR, gone)"))
            }
            None => Ok(()),
        }
    }

    fn put_service(&mut self, tokens: &mut Tokens<'_>) -> Result<(), String> {
        let service = StatedService::read(tokens)?;
        let name = service.name();
        self.take(convert::service(&service.object));
        self.services.insert(name.clone(), service);
        self.put_slices_of(&name);
        Ok(())
    }

    fn put_endpoint(&mut self, tokens: &mut Tokens<'_>) -> Result<(), String> {
        let endpoint = StatedEndpoint::read(tokens)?;
        self.endpoints.retain(|known| !known.is_same_as(&endpoint));
        let service = endpoint.service.clone();
        self.endpoints.push(endpoint);
        self.put_slices_of(&service);
        Ok(())
    }

    fn take_back(&mut self, tokens: &mut Tokens<'_>) -> Result<(), String> {
        match tokens.next() {
            Some("service") => {
                let name = namespaced(tokens.value("a service name")?);
                let Some(service) = self.services.remove(&name) else {
                    return Err(format!("there is no service {name} to take back"));
                };
                self.take(convert::service_deleted(&service.object.metadata));
                Ok(())
            }
            Some("endpoint") => {
                let endpoint = StatedEndpoint::read(tokens)?;
                let before = self.endpoints.len();
                self.endpoints.retain(|known| !known.is_same_as(&endpoint));
                if self.endpoints.len() == before {
                    return Err(format!("there is no endpoint {} to take back", endpoint.address));
                }
                self.put_slices_of(&endpoint.service);
                self.take_empty_slice(&endpoint);
                Ok(())
            }
            Some("serviceCIDR") => {
                dsl::node::service_cidr_gone(self, tokens);
                Ok(())
            }
            other => Err(format!("\"gone\" wants service, endpoint or serviceCIDR, not {other:?}")),
        }
    }

    /// Sends all slices of a Service again; those that did not change touch nothing.
    fn put_slices_of(&mut self, service: &str) {
        let stated = self.services.get(service);
        for slice in slices_of(service, stated, &self.endpoints) {
            self.take(convert::endpoint_slice(&slice, &self.view.name));
        }
    }

    /// The control plane deletes a slice that has become empty.
    fn take_empty_slice(&mut self, last: &StatedEndpoint) {
        if !self.endpoints.iter().any(|other| other.slice_name() == last.slice_name()) {
            self.take(convert::endpoint_slice_deleted(&last.slice_metadata()));
        }
    }

    fn take(&mut self, converted: Converted) {
        self.diagnostics.extend(converted.diagnostics);
        if let Some(change) = converted.change {
            self.apply(change);
        }
    }

    /// What moved the node: its name decides which endpoints are local, so all slices are read again.
    fn node_renamed(&mut self) {
        let mut services: Vec<String> =
            self.endpoints.iter().map(|endpoint| endpoint.service.clone()).collect();
        services.sort();
        services.dedup();
        for service in services {
            self.put_slices_of(&service);
        }
        self.touched.node = true;
    }
}

/// Runs over the lines that say something, naming the line in an error.
fn each_line(
    text: &str,
    mut act: impl FnMut(&mut Tokens<'_>) -> Result<(), String>,
) -> Result<(), WorldError> {
    for (at, line) in text.lines().enumerate() {
        let mut tokens = Tokens::new(line);
        if tokens.is_empty() {
            continue;
        }
        act(&mut tokens)
            .and_then(|()| tokens.finish())
            .map_err(|problem| WorldError { line: at + 1, problem })?;
    }
    Ok(())
}
