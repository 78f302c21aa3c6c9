//! Decides what to do with a table that is there: adopt it as it is, or rewrite it.

use ferrule_kernel::port::NftTables;
use ferrule_plan::FamilyPlan;

use super::commit::Baseline;
use super::observed::{self, Observed};
use super::rewrite::Wanted;
use super::{Applied, Reconciler, Synced};
use crate::Stamp;
use crate::nftables::SyncError;
use crate::nftables::rule_set::StableIds;

impl<K: NftTables> Reconciler<K> {
    /// Adopts the table if it holds the plan, and rewrites it otherwise. Reads no more than it takes to be certain.
    pub(super) fn adopt_or_rewrite(
        &mut self,
        plan: &FamilyPlan,
        known: Option<&StableIds>,
    ) -> Result<Synced, SyncError> {
        let generation = self.kernel.generation()?;
        let stamp = match Observed::read(&mut self.kernel)? {
            Observed::Nothing => return self.create(plan, generation),
            Observed::Foreign => return self.replace(plan),
            Observed::Ours(stamp) => stamp,
        };
        let wanted = self.wanted(plan, stamp, known)?;
        let is_untouched =
            stamp.generation != 0 && self.own_commits.no_foreign_commit_between(stamp.generation, generation);
        if wanted.is_stamped(stamp)
            && (is_untouched || observed::holds(&mut self.kernel, &wanted.rule_set, &wanted.elements)?)
        {
            return Ok(Synced::unchanged(Applied::new(wanted.rule_set, stamp, Some(generation))));
        }
        let baseline = if is_untouched { Baseline::Generation(Some(generation)) } else { Baseline::Unread };
        self.rewrite_or_replace(plan, wanted, baseline)
    }

    /// Rewrites everything, unless the foreign commit was another Ferrule's with the same plan: two of them must not fight.
    pub(super) fn repair(&mut self, plan: &FamilyPlan, applied: &Applied) -> Result<Synced, SyncError> {
        let Observed::Ours(stamp) = Observed::read(&mut self.kernel)? else {
            let wanted = Wanted::new(plan, applied.rule_set.ids().clone());
            return self.rewrite_or_replace(plan, wanted, Baseline::Unread);
        };
        let wanted = self.wanted(plan, stamp, Some(applied.rule_set.ids()))?;
        if stamp != applied.stamp
            && wanted.is_stamped(stamp)
            && observed::holds(&mut self.kernel, &wanted.rule_set, &wanted.elements)?
        {
            return Ok(Synced::unchanged(Applied::new(wanted.rule_set, stamp, None)));
        }
        self.rewrite_or_replace(plan, wanted, Baseline::Unread)
    }

    /// The rule set of a plan with the ids we know, even if another program emptied the maps that hold them. Those in the table
    /// are read at a start, and if another Ferrule seems to have assigned others.
    pub(super) fn wanted(
        &mut self,
        plan: &FamilyPlan,
        stamp: Stamp,
        known: Option<&StableIds>,
    ) -> Result<Wanted, SyncError> {
        let mut with_ours = known.map(|known| Wanted::new(plan, known.clone()));
        if let Some(with_ours) = with_ours.take_if(|wanted| wanted.is_stamped(stamp)) {
            return Ok(with_ours);
        }
        let with_theirs = Wanted::new(plan, observed::read_ids(&mut self.kernel, plan)?);
        Ok(with_ours.filter(|_| !with_theirs.is_stamped(stamp)).unwrap_or(with_theirs))
    }
}
