//! Answers as indented text, one fact a line.

use std::fmt;
use std::net::SocketAddr;

use super::{
    EndpointReasons, FamilyReasons, FrontendReasons, NotServed, PacketReasons, PortReasons, ServiceReasons,
};
use crate::Trace;

impl fmt::Display for ServiceReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Service {}", self.name)?;
        for family in &self.families {
            write!(f, "{family}")?;
        }
        if !self.unusable.is_empty() {
            writeln!(f, "  unusable")?;
        }
        for diagnostic in &self.unusable {
            writeln!(f, "    {diagnostic}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FamilyReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.not_served {
            None => writeln!(f, "  {}", self.family)?,
            Some(why) => writeln!(f, "  {}: not served: {why}", self.family)?,
        }
        for port in &self.ports {
            write!(f, "{port}")?;
        }
        Ok(())
    }
}

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoClusterIp => "the Service has no cluster IP of this family",
            Self::FamilyOff => "this node does not serve this family",
        })
    }
}

impl fmt::Display for PortReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    port {:?}", self.owner)?;
        if let Some(hints) = self.hints {
            writeln!(f, "      {hints}")?;
        }
        for endpoint in &self.endpoints {
            writeln!(f, "      endpoint {endpoint}")?;
        }
        for frontend in &self.frontends {
            writeln!(f, "      frontend {frontend}")?;
        }
        for unclaimed in &self.unclaimed {
            writeln!(f, "      no frontend {unclaimed}")?;
        }
        if self.source_ranges_ignored {
            writeln!(f, "      source ranges are ignored: there is no endpoint")?;
        }
        Ok(())
    }
}

impl fmt::Display for EndpointReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}", SocketAddr::new(self.ip, port))?,
            None => write!(f, "{}", self.ip)?,
        }
        if self.cluster == self.local {
            write!(f, ": {}", self.cluster)
        } else {
            write!(f, ": cluster pool: {}; local pool: {}", self.cluster, self.local)
        }
    }
}

impl fmt::Display for FrontendReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, frontend, why, holder } = self;
        write!(f, "{key}: {}: {why}; {holder}", frontend.shape)
    }
}

impl fmt::Display for PacketReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trace { outcome, decided_by } = &self.trace;
        write!(f, "{outcome}: {decided_by}")?;
        self.frontend.as_ref().map_or(Ok(()), |frontend| write!(f, "\n  {frontend}"))
    }
}
