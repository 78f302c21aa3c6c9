//! Landlock: every file may be read and run, few may be written.

use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetStatus, path_beneath_rules,
};

use super::SandboxError;

/// Older kernels restrict less.
const ABI_VERSION: ABI = ABI::V5;

/// Makes everything read-only but these files and the files in these folders. Returns whether the kernel enforces it.
pub(super) fn restrict(writable: &[PathBuf]) -> Result<bool, SandboxError> {
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_VERSION))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(["/"], AccessFs::from_read(ABI_VERSION))))
        .and_then(|rules| rules.add_rules(path_beneath_rules(writable, AccessFs::from_all(ABI_VERSION))))
        .and_then(RulesetCreated::restrict_self);
    let status = restricted.map_err(|error| SandboxError::Files(error.to_string()))?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}
