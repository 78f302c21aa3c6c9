//! `service web LoadBalancer 203.0.113.7 clusterIP 10.96.0.10 port http 80→8080 nodePort 30080 …`

use ferrule_watch::api;

use super::tokens::{Tokens, namespace_and_name};

/// A Service as stated, and where its ports lead, which only its slices know in a real cluster.
#[derive(Clone, Debug)]
pub(in crate::world) struct StatedService {
    pub object: api::Service,
    pub target_ports: Vec<i64>,
}

impl StatedService {
    pub(in crate::world) fn name(&self) -> String {
        format!("{}/{}", self.object.metadata.namespace, self.object.metadata.name)
    }

    pub(in crate::world) fn read(tokens: &mut Tokens<'_>) -> Result<Self, String> {
        let (namespace, name) = namespace_and_name(tokens.value("a service name")?);
        let mut object = api::Service::default();
        object.metadata.namespace = namespace;
        object.metadata.name = name;
        object.spec.kind = "ClusterIP".into();
        let mut service = Self { object, target_ports: Vec::new() };
        service.read_type(tokens);
        while let Some(key) = tokens.next() {
            service.read_field(key, tokens)?;
        }
        Ok(service)
    }

    /// The type, with the load balancer's addresses behind it.
    fn read_type(&mut self, tokens: &mut Tokens<'_>) {
        let is_type = |word: &str| matches!(word, "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName");
        let Some(kind) = tokens.peek().filter(|word| is_type(word)) else { return };
        tokens.next();
        self.object.spec.kind = kind.into();
        while let Some(vip) = tokens
            .peek()
            .filter(|word| word.starts_with(|c: char| c.is_ascii_digit() || c == ':') || word.contains(':'))
        {
            tokens.next();
            let ingress = api::LoadBalancerIngress { ip: vip.into(), ip_mode: None };
            self.object.status.load_balancer.ingress.push(ingress);
        }
    }

    fn read_field(&mut self, key: &str, tokens: &mut Tokens<'_>) -> Result<(), String> {
        let spec = &mut self.object.spec;
        match key {
            "clusterIP" => self.read_cluster_ips(tokens)?,
            "port" => self.read_port(tokens)?,
            "nodePort" => self.last_port()?.node_port = tokens.number("the node port")?,
            "externalIP" => spec.external_ips = tokens.list("external IPs")?,
            "externalTrafficPolicy" => spec.external_traffic_policy = tokens.value("a policy")?.into(),
            "internalTrafficPolicy" => spec.internal_traffic_policy = tokens.value("a policy")?.into(),
            "sourceRanges" => spec.load_balancer_source_ranges = tokens.list("source ranges")?,
            "sessionAffinity" => self.read_affinity(tokens)?,
            "healthCheckNodePort" => spec.health_check_node_port = tokens.number("the health check port")?,
            "ipMode" => self.read_ip_mode(tokens)?,
            "created" => self.object.metadata.creation_timestamp = Some(tokens.value("a time")?.into()),
            "serviceProxyName" => {
                self.object.metadata.labels.service_proxy_name = Some(tokens.value("a name")?.into());
            }
            _ => return Err(format!("unknown word \"{key}\" about a service")),
        }
        Ok(())
    }

    /// One address or two; the families follow from them, as the API server would have it.
    fn read_cluster_ips(&mut self, tokens: &mut Tokens<'_>) -> Result<(), String> {
        let spec = &mut self.object.spec;
        spec.cluster_ips = tokens.list("a cluster IP")?;
        spec.cluster_ip = spec.cluster_ips.first().cloned().unwrap_or_default();
        let family = |ip: &String| if ip.contains(':') { "IPv6" } else { "IPv4" };
        spec.ip_families = spec.cluster_ips.iter().map(family).map(str::to_string).collect();
        Ok(())
    }

    /// `port http 80→8080/udp`; the name and the target may be left out.
    fn read_port(&mut self, tokens: &mut Tokens<'_>) -> Result<(), String> {
        let first = tokens.value("a port")?;
        let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        let (name, numbers) =
            if is_number(first) { ("", first) } else { (first, tokens.value("a port number")?) };
        let (numbers, protocol) = numbers.split_once('/').unwrap_or((numbers, "tcp"));
        let (number, target) =
            numbers.split_once('→').or_else(|| numbers.split_once("->")).unwrap_or((numbers, numbers));
        let parse = |text: &str| text.parse::<i64>().map_err(|_| format!("\"{text}\" is not a port number"));
        self.object.spec.ports.push(api::ServicePort {
            name: if name == "\"\"" { String::new() } else { name.into() },
            protocol: protocol.to_ascii_uppercase(),
            port: parse(number)?,
            node_port: 0,
        });
        self.target_ports.push(parse(target)?);
        Ok(())
    }

    fn read_affinity(&mut self, tokens: &mut Tokens<'_>) -> Result<(), String> {
        self.object.spec.session_affinity = tokens.value("an affinity")?.into();
        if tokens.peek().is_some_and(|word| word.parse::<i64>().is_ok()) {
            let seconds = tokens.number("the timeout")?;
            self.object.spec.session_affinity_config.client_ip.timeout_seconds = Some(seconds);
        }
        Ok(())
    }

    fn read_ip_mode(&mut self, tokens: &mut Tokens<'_>) -> Result<(), String> {
        let mode = tokens.value("an ipMode")?;
        for ingress in &mut self.object.status.load_balancer.ingress {
            ingress.ip_mode = Some(mode.into());
        }
        Ok(())
    }

    fn last_port(&mut self) -> Result<&mut api::ServicePort, String> {
        self.object.spec.ports.last_mut().ok_or_else(|| "nodePort comes after the port it belongs to".into())
    }
}
