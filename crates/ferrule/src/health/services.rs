//! What load balancers are told about Services with a `healthCheckNodePort`: how many endpoints are on this node.

use std::collections::BTreeMap;

use ferrule_model::ServiceName;
use ferrule_plan::HealthCheck;

/// The Services of one family that are asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceHealth {
    services: BTreeMap<ServiceName, HealthCheck>,
}

/// An answer about one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAnswer {
    /// Whether this node should get the Service's traffic.
    pub is_well: bool,
    /// How many endpoints are here.
    pub weight: usize,
    /// The text.
    pub body: String,
}

impl ServiceHealth {
    /// Takes over what a Service's check says now; `None` if it has none any more.
    pub fn set(&mut self, name: &ServiceName, check: Option<HealthCheck>) {
        match check {
            Some(check) => drop(self.services.insert(name.clone(), check)),
            None => drop(self.services.remove(name)),
        }
    }

    /// The port that each Service is asked about on.
    pub fn ports(&self) -> impl Iterator<Item = (&ServiceName, u16)> {
        self.services.iter().map(|(name, check)| (name, check.port))
    }

    /// What to answer about a Service; `None` if it is no longer asked about.
    pub fn answer(&self, name: &ServiceName, is_proxy_well: bool) -> Option<ServiceAnswer> {
        let weight = self.services.get(name)?.local_endpoints;
        // Tabs, and no line end: kube-proxy's to the byte.
        let body = format!(
            "{{\n\t\"service\": {{\n\t\t\"namespace\": {},\n\t\t\"name\": {}\n\t}},\n\t\"localEndpoints\": {weight},\n\t\"serviceProxyHealthy\": {is_proxy_well}\n}}",
            serde_json::Value::from(name.namespace()),
            serde_json::Value::from(name.name()),
        );
        Some(ServiceAnswer { is_well: weight > 0 && is_proxy_well, weight, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ServiceName {
        ServiceName::new(text)
    }

    fn check(port: u16, local_endpoints: usize) -> HealthCheck {
        HealthCheck { port, local_endpoints }
    }

    #[test]
    fn bodies_are_kube_proxys_to_the_byte() {
        let mut health = ServiceHealth::default();
        health.set(&name("default/web"), Some(check(32000, 1)));
        let answer = health.answer(&name("default/web"), true).expect("an answer");
        let body = "{\n\t\"service\": {\n\t\t\"namespace\": \"default\",\n\t\t\"name\": \"web\"\n\t},\n\t\"localEndpoints\": 1,\n\t\"serviceProxyHealthy\": true\n}";
        assert_eq!(answer.body, body);
        assert_eq!(answer.body.len(), 114);
    }

    /// Row: server 8.9 #1, 8.9 #3-#6
    /// Row: model H7, H9, H11, H12
    #[test]
    fn a_service_is_well_with_endpoints_here_and_a_proxy_that_is_well() {
        let mut health = ServiceHealth::default();
        assert_eq!(health.answer(&name("a/b"), true), None, "nobody asks about it");
        for (endpoints, is_proxy_well, is_well) in
            [(0, true, false), (18, true, true), (0, true, false), (18, false, false)]
        {
            health.set(&name("a/b"), Some(check(9376, endpoints)));
            let answer = health.answer(&name("a/b"), is_proxy_well).expect("an answer");
            assert_eq!((answer.is_well, answer.weight), (is_well, endpoints));
            assert!(answer.body.ends_with(&format!("\"serviceProxyHealthy\": {is_proxy_well}\n}}")));
        }
        health.set(&name("a/b"), None);
        assert_eq!(health.answer(&name("a/b"), true), None);
    }
}
