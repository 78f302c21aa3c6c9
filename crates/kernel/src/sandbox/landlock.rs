//! Files: everything may be read and run, few may be written.

use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetStatus, path_beneath_rules,
};

use super::SandboxError;

/// What is known of files here; kernels that know less restrict less.
const KNOWN: ABI = ABI::V5;

/// Lets nothing be written but these files, and files in these folders; says whether the kernel can.
pub(super) fn restrict(writable: &[PathBuf]) -> Result<bool, SandboxError> {
    let made = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(["/"], AccessFs::from_read(KNOWN))))
        .and_then(|rules| rules.add_rules(path_beneath_rules(writable, AccessFs::from_all(KNOWN))))
        .and_then(RulesetCreated::restrict_self);
    let status = made.map_err(|error| SandboxError::Files(error.to_string()))?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}
