//! The names objects go by: services, their ports, slices, nodes, zones.
//!
//! Names are shared text (`Arc<str>`): cloning one copies a pointer. A namespaced name is one text, `namespace/name`,
//! the form operators see in logs; half the size of two texts, and there are tens of thousands of them.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::Protocol;

macro_rules! shared_text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is.
            pub fn new(text: &str) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

shared_text!(
    /// A Node's name, as in `spec.nodeName` and node hints.
    NodeName
);
shared_text!(
    /// A zone, the value of the label `topology.kubernetes.io/zone`, as in zone hints.
    Zone
);
shared_text!(
    /// The name of a Service port; empty for the unnamed port of a single-port Service.
    PortName
);
shared_text!(
    /// A Service: `namespace/name`.
    ServiceName
);
shared_text!(
    /// An EndpointSlice: `namespace/name`.
    SliceName
);

impl ServiceName {
    /// Joins a namespace and a name.
    pub fn of(namespace: &str, name: &str) -> Self {
        Self(joined(namespace, name))
    }

    /// The part before the slash.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The part after the slash.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl SliceName {
    /// Joins a namespace and a name.
    pub fn of(namespace: &str, name: &str) -> Self {
        Self(joined(namespace, name))
    }
}

fn joined(namespace: &str, name: &str) -> Arc<str> {
    let mut text = String::with_capacity(namespace.len() + 1 + name.len());
    text.push_str(namespace);
    text.push('/');
    text.push_str(name);
    text.into()
}

/// One port of one Service, as kube-proxy keys it: the protocol is part of the key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePortName {
    /// The Service.
    pub service: ServiceName,
    /// The port's name, which may be empty.
    pub port: PortName,
    /// Its protocol.
    pub protocol: Protocol,
}

impl fmt::Display for ServicePortName {
    /// `ns/name:port`, or `ns/name` for the unnamed port; the protocol is not in the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.port.as_str().is_empty() {
            write!(f, "{}", self.service)
        } else {
            write!(f, "{}:{}", self.service, self.port)
        }
    }
}

impl fmt::Debug for ServicePortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}/{}", self.protocol)
    }
}
