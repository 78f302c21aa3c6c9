//! `/configz`: the configuration in effect as JSON, its fields in the order the API declares them.

use super::encode::is_left_out;
use super::fields;
use super::slot::Value;
use super::v1alpha1::{API_VERSION, KIND, KubeProxyConfiguration, VModuleItem};
use crate::go::format_float32;

/// The API's order, which some tools' users have grown used to.
const ORDER: [&str; 62] = [
    "featureGates",
    "clientConnection.kubeconfig",
    "clientConnection.acceptContentTypes",
    "clientConnection.contentType",
    "clientConnection.qps",
    "clientConnection.burst",
    "logging.format",
    "logging.flushFrequency",
    "logging.verbosity",
    "logging.vmodule",
    "logging.options.text.splitStream",
    "logging.options.text.infoBufferSize",
    "logging.options.json.splitStream",
    "logging.options.json.infoBufferSize",
    "hostnameOverride",
    "bindAddress",
    "healthzBindAddress",
    "metricsBindAddress",
    "bindAddressHardFail",
    "enableProfiling",
    "showHiddenMetricsForVersion",
    "mode",
    "iptables.masqueradeBit",
    "iptables.masqueradeAll",
    "iptables.localhostNodePorts",
    "iptables.syncPeriod",
    "iptables.minSyncPeriod",
    "ipvs.syncPeriod",
    "ipvs.minSyncPeriod",
    "ipvs.scheduler",
    "ipvs.excludeCIDRs",
    "ipvs.strictARP",
    "ipvs.tcpTimeout",
    "ipvs.tcpFinTimeout",
    "ipvs.udpTimeout",
    "nftables.masqueradeBit",
    "nftables.masqueradeAll",
    "nftables.syncPeriod",
    "nftables.minSyncPeriod",
    "winkernel.networkName",
    "winkernel.sourceVip",
    "winkernel.enableDSR",
    "winkernel.rootHnsEndpointName",
    "winkernel.forwardHealthCheckVip",
    "detectLocalMode",
    "detectLocal.bridgeInterface",
    "detectLocal.interfaceNamePrefix",
    "clusterCIDR",
    "nodePortAddresses",
    "oomScoreAdj",
    "conntrack.maxPerCore",
    "conntrack.min",
    "conntrack.tcpEstablishedTimeout",
    "conntrack.tcpCloseWaitTimeout",
    "conntrack.tcpBeLiberal",
    "conntrack.udpTimeout",
    "conntrack.udpStreamTimeout",
    "configSyncPeriod",
    "portRange",
    "windowsRunAsService",
    "resourceContainer",
    "udpIdleTimeout",
];

/// The page.
pub fn page(configuration: &KubeProxyConfiguration) -> String {
    let mut object = Object::default();
    object.put("kind", &text(KIND));
    object.put("apiVersion", &text(API_VERSION));
    for field in
        ORDER.iter().filter_map(|path| fields::find(path)).filter(|field| field.age == fields::Age::Current)
    {
        let value = field.value(configuration);
        if !is_left_out(field, &value) {
            object.put(field.path, &json(&value));
        }
    }
    format!("{{\"kubeproxy.config.k8s.io\":{}}}", object.finish())
}

/// An object being written, whose keys come with the names of the objects they are in.
#[derive(Default)]
struct Object {
    text: String,
    open: Vec<String>,
}

impl Object {
    fn put(&mut self, path: &str, value: &str) {
        let mut names: Vec<&str> = path.split('.').collect();
        let key = names.pop().unwrap_or_default();
        let shared = self.open.iter().zip(&names).take_while(|(open, name)| open == *name).count();
        while self.open.len() > shared {
            self.open.pop();
            self.text.push('}');
        }
        for name in &names[shared..] {
            self.begin(name);
            self.text.push('{');
            self.open.push((*name).to_owned());
        }
        self.begin(key);
        self.text.push_str(value);
    }

    fn begin(&mut self, key: &str) {
        if self.text.is_empty() {
            self.text.push('{');
        } else if !self.text.ends_with('{') {
            self.text.push(',');
        }
        self.text.push_str(&text(key));
        self.text.push(':');
    }

    fn finish(mut self) -> String {
        self.text.extend(std::iter::repeat_n('}', self.open.len() + 1));
        self.text
    }
}

fn json(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int32(value) => value.to_string(),
        Value::Uint32(value) => value.to_string(),
        Value::Float32(value) => format_float32(*value + 0.0),
        Value::Text(value) => text(value),
        Value::Duration(duration) => text(&duration.to_string()),
        Value::Flush(flush) => text(&flush.every.to_string()),
        Value::TextList(list) => {
            format!("[{}]", list.iter().map(|item| text(item)).collect::<Vec<_>>().join(","))
        }
        Value::Gates(gates) => {
            let pairs: Vec<String> = gates.iter().map(|(name, on)| format!("{}:{on}", text(name))).collect();
            format!("{{{}}}", pairs.join(","))
        }
        Value::VModule(items) => {
            let item = |item: &VModuleItem| {
                format!("{{\"filePattern\":{},\"verbosity\":{}}}", text(&item.file_pattern), item.verbosity)
            };
            format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(","))
        }
        Value::Quantity(quantity) => text(&quantity.to_string()),
        Value::Absent => "null".to_owned(),
    }
}

/// A text as Go writes it into JSON, which escapes what could end a script in a page.
fn text(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_in_the_order() {
        for field in fields::all() {
            assert!(ORDER.contains(&field.path), "{} has no place", field.path);
        }
    }

    #[test]
    fn the_page_is_json_with_groups() {
        let mut configuration = KubeProxyConfiguration::default();
        crate::config::defaults::fill_defaults(&mut configuration);
        let page = page(&configuration);
        let start = "{\"kubeproxy.config.k8s.io\":{\"kind\":\"KubeProxyConfiguration\",\"apiVersion\":\"kubeproxy.config.k8s.io/v1alpha1\",\"clientConnection\":{\"kubeconfig\":\"\",\"acceptContentTypes\":\"\",\"contentType\":\"application/vnd.kubernetes.protobuf\",\"qps\":5,\"burst\":10},\"logging\":{\"format\":\"text\",\"flushFrequency\":\"5s\",\"verbosity\":0,\"options\":{\"text\":{\"infoBufferSize\":\"0\"},\"json\":{\"infoBufferSize\":\"0\"}}},\"hostnameOverride\":\"\",";
        assert!(page.starts_with(start), "{page}");
        let parsed: serde_json::Value = serde_json::from_str(&page).expect("JSON");
        assert_eq!(parsed["kubeproxy.config.k8s.io"]["nodePortAddresses"], serde_json::Value::Null);
        assert_eq!(parsed["kubeproxy.config.k8s.io"]["conntrack"]["min"], 131_072);
    }
}
