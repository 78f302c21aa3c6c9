//! Health checks of Services with a `healthCheckNodePort`: how many endpoints are on this node.

use std::collections::BTreeMap;

use ferrule_model::ServiceName;
use ferrule_plan::HealthCheck;

/// The checked Services of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceHealth {
    services: BTreeMap<ServiceName, HealthCheck>,
}

/// The response to the health check of one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceHealthReport {
    /// Whether this node should get the Service's traffic.
    pub is_healthy: bool,
    /// The number of local endpoints.
    pub weight: usize,
    /// The JSON body.
    pub body: String,
}

impl ServiceHealth {
    /// Updates a Service's check; `None` removes it.
    pub fn set(&mut self, name: &ServiceName, check: Option<HealthCheck>) {
        match check {
            Some(check) => drop(self.services.insert(name.clone(), check)),
            None => drop(self.services.remove(name)),
        }
    }

    /// The health check port of each Service.
    pub fn ports(&self) -> impl Iterator<Item = (&ServiceName, u16)> {
        self.services.iter().map(|(name, check)| (name, check.port))
    }

    /// The report about a Service; `None` if it has no check.
    pub fn report(&self, name: &ServiceName, is_proxy_healthy: bool) -> Option<ServiceHealthReport> {
        let weight = self.services.get(name)?.local_endpoints;
        // Tabs and no line end: equal to kube-proxy's to the byte.
        let body = format!(
            "{{\n\t\"service\": {{\n\t\t\"namespace\": {},\n\t\t\"name\": {}\n\t}},\n\t\"localEndpoints\": {weight},\n\t\"serviceProxyHealthy\": {is_proxy_healthy}\n}}",
            serde_json::Value::from(name.namespace()),
            serde_json::Value::from(name.name()),
        );
        Some(ServiceHealthReport { is_healthy: weight > 0 && is_proxy_healthy, weight, body })
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
        let report = health.report(&name("default/web"), true).expect("a report");
        let body = "{\n\t\"service\": {\n\t\t\"namespace\": \"default\",\n\t\t\"name\": \"web\"\n\t},\n\t\"localEndpoints\": 1,\n\t\"serviceProxyHealthy\": true\n}";
        assert_eq!(report.body, body);
        assert_eq!(report.body.len(), 114);
    }

    /// Row: server 8.9 #1, 8.9 #3-#6
    /// Row: model H7, H9, H11, H12
    #[test]
    fn a_service_is_well_with_endpoints_here_and_a_proxy_that_is_well() {
        let mut health = ServiceHealth::default();
        assert_eq!(health.report(&name("a/b"), true), None, "it has no check");
        for (endpoints, is_proxy_healthy, is_healthy) in
            [(0, true, false), (18, true, true), (0, true, false), (18, false, false)]
        {
            health.set(&name("a/b"), Some(check(9376, endpoints)));
            let report = health.report(&name("a/b"), is_proxy_healthy).expect("a report");
            assert_eq!((report.is_healthy, report.weight), (is_healthy, endpoints));
            assert!(report.body.ends_with(&format!("\"serviceProxyHealthy\": {is_proxy_healthy}\n}}")));
        }
        health.set(&name("a/b"), None);
        assert_eq!(health.report(&name("a/b"), true), None);
    }
}
