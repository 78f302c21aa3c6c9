//! What the table holds for one frontend.
//!
//! The frontend is compiled alone, with the ids that the kernel has, and each piece is searched in the table. What the table
//! holds for others is not reported.

use std::collections::BTreeMap;

use ferrule_kernel::nft::show::{KnownSets, element_text};
use ferrule_kernel::nft::{Element, KeyBytes, Name};
use ferrule_kernel::port::NftTables;
use ferrule_plan::{FamilyPlan, FrontendKey};

use super::Reconciler;
use super::observed::Observed;
use super::rewrite::Wanted;
use super::skeleton::{Piece, Skeleton};
use crate::HeldFrontend;
use crate::nftables::SyncError;
use crate::nftables::rule_set::RuleSet;

impl<K: NftTables> Reconciler<K> {
    /// What the table holds for one frontend of a plan. Writes nothing.
    pub fn held(&mut self, plan: &FamilyPlan, key: Option<&FrontendKey>) -> Result<HeldFrontend, SyncError> {
        let table = format!("table {} kube-proxy", self.kernel.family());
        let mut held = HeldFrontend::default();
        let stamp = match Observed::read(&mut self.kernel)? {
            Observed::Ours(stamp) => stamp,
            Observed::Nothing => {
                held.missing.push(table);
                return Ok(held);
            }
            Observed::Foreign => {
                held.differing.push(format!("{table}: not as this program writes it, or switched off"));
                return Ok(held);
            }
        };
        let part = plan.around(key);
        let Wanted { rule_set, elements } = self.wanted(&part, stamp, None)?;
        for piece in Skeleton::read(&mut self.kernel)?.wrong_pieces(&rule_set) {
            match piece {
                Piece::Missing(what) => held.missing.push(what),
                Piece::Differing(what) => held.differing.push(format!("{what}: not as written")),
            }
        }
        let owner = key.and_then(|key| part.frontend(key)).map(|frontend| &frontend.owner.service);
        let of_owner = owner.and_then(|owner| elements.services.get(owner)).into_iter().flatten();
        self.compare(elements.node.iter().chain(of_owner), &rule_set, &mut held)?;
        Ok(held)
    }

    fn compare<'a>(
        &mut self,
        elements: impl Iterator<Item = &'a Element>,
        rule_set: &RuleSet,
        held: &mut HeldFrontend,
    ) -> Result<(), SyncError> {
        let known: KnownSets = rule_set.sets().into_iter().map(|set| (set.name.clone(), set)).collect();
        let mut read = ReadSets::default();
        for wanted in elements {
            let text = |element: &Element| {
                format!("{} {}", element.set, element_text(element, known.get(&element.set)))
            };
            match read.element(&mut self.kernel, wanted)? {
                Some(seen) if seen.value == wanted.value => held.holds.push(text(wanted)),
                Some(seen) => held.differing.push(format!("{}: should be {}", text(seen), text(wanted))),
                None => held.missing.push(text(wanted)),
            }
        }
        Ok(())
    }
}

/// Elements of the sets that were read so far.
#[derive(Default)]
struct ReadSets(BTreeMap<Name, BTreeMap<KeyBytes, Element>>);

impl ReadSets {
    /// The element of the same set and key.
    fn element(
        &mut self,
        kernel: &mut impl NftTables,
        like: &Element,
    ) -> Result<Option<&Element>, SyncError> {
        if !self.0.contains_key(&like.set) {
            let seen = kernel.elements(&like.set)?.unwrap_or_default().elements;
            let by_key = seen.into_iter().map(|element| (element.key.clone(), element)).collect();
            self.0.insert(like.set.clone(), by_key);
        }
        Ok(self.0.get(&like.set).and_then(|set| set.get(&like.key)))
    }
}
