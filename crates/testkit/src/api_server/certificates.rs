//! Certificates signed by a cluster's own CA.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, Error, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

const HOUR: Duration = Duration::from_hours(1);

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Includes the present.
    Current,
    /// Ended yesterday.
    Expired,
}

impl Authority {
    /// A new, self-signed one.
    pub fn new() -> Result<Self, Error> {
        let mut parameters = parameters("ferrule-test-ca", Validity::Current);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Self { issuer: CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)? })
    }

    /// The CA certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A client's certificate and key.
    pub fn client(&self, name: &str, validity: Validity) -> Result<(String, String), Error> {
        let mut parameters = parameters(name, validity);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&parameters)
    }

    /// A server's certificate and key.
    pub fn server(&self, addresses: &[IpAddr]) -> Result<(String, String), Error> {
        let mut parameters = parameters("kube-apiserver", Validity::Current);
        parameters.subject_alt_names = addresses.iter().copied().map(SanType::IpAddress).collect();
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&parameters)
    }

    fn sign(&self, parameters: &CertificateParams) -> Result<(String, String), Error> {
        let key = KeyPair::generate()?;
        Ok((parameters.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }
}

fn parameters(name: &str, validity: Validity) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.use_authority_key_identifier_extension = true;
    let now = SystemTime::now();
    parameters.not_before = (now - 48 * HOUR).into();
    parameters.not_after = match validity {
        Validity::Current => (now + 48 * HOUR).into(),
        Validity::Expired => (now - 24 * HOUR).into(),
    };
    parameters
}
