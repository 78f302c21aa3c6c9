//! The tests that every proxy mode must pass: packets, random worlds, restarts, the contract of `sync`, and `diff`.
//!
//! They drive a mode only through `Backend` and `Dataplane`. What a mode has to add is a [`Mode`](mode::Mode) and one line at
//! the end of this file. Tests of what only one mode has are in the files beside this folder.
#![allow(clippy::print_stdout, reason = "a test says how much it asked, and when it is skipped")]

mod contract;
mod diff;
mod mode;
mod packets;
mod random_worlds;
mod restarts;
#[path = "../support/mod.rs"]
mod support;

/// Modes in which this process relays: what ends with it cannot be found by another start.
mod userspace {
    use crate::mode::USERSPACE;
    use crate::{packets, random_worlds};

    #[test]
    fn packets_of_the_stories_find_what_the_oracle_says() {
        packets::check(&USERSPACE);
    }

    #[test]
    fn random_worlds_answer_packets_as_the_oracle_says() {
        random_worlds::check(&USERSPACE);
    }
}

mod nftables_localhost {
    use crate::mode::NFTABLES_LOCALHOST;
    use crate::{packets, random_worlds};

    /// Row: model L7-L9
    #[test]
    fn packets_of_the_stories_find_what_the_oracle_says() {
        packets::check(&NFTABLES_LOCALHOST);
    }

    #[test]
    fn random_worlds_answer_packets_as_the_oracle_says() {
        random_worlds::check(&NFTABLES_LOCALHOST);
    }
}

mod ipvs_localhost {
    use crate::mode::IPVS_LOCALHOST;
    use crate::{packets, random_worlds};

    #[test]
    fn packets_of_the_stories_find_what_the_oracle_says() {
        packets::check(&IPVS_LOCALHOST);
    }

    #[test]
    fn random_worlds_answer_packets_as_the_oracle_says() {
        random_worlds::check(&IPVS_LOCALHOST);
    }
}

/// Runs every test for each of these modes, in a module of the mode's name.
macro_rules! test_modes {
    ($($name:ident: $mode:expr;)*) => {$(
        mod $name {
            use crate::mode::Mode;
            use crate::{contract, diff, packets, random_worlds, restarts};

            const MODE: &Mode = &$mode;

            #[test]
            fn packets_of_the_stories_find_what_the_oracle_says() {
                packets::check(MODE);
            }

            #[test]
            fn random_worlds_answer_packets_as_the_oracle_says() {
                random_worlds::check(MODE);
            }

            #[test]
            fn a_start_that_finds_what_it_wants_writes_nothing() {
                restarts::without_a_change(MODE);
            }

            #[test]
            fn a_start_after_a_change_writes_it() {
                restarts::after_a_change(MODE);
            }

            #[test]
            fn rules_that_were_adopted_are_changed_in_place() {
                restarts::adoption(MODE);
            }

            #[test]
            fn a_start_repairs_what_was_damaged_meanwhile() {
                restarts::after_damage(MODE);
            }

            #[test]
            fn after_a_sync_the_kernel_holds_the_plan_whatever_the_trigger() {
                contract::check(MODE);
            }

            #[test]
            fn a_verification_and_a_repair_put_back_what_was_removed() {
                contract::check_damage(MODE);
            }

            #[test]
            fn the_diff_is_empty_when_in_sync() {
                diff::in_sync(MODE);
            }

            #[test]
            fn the_diff_names_what_was_removed_and_nothing_else() {
                diff::after_damage(MODE);
            }

            #[test]
            fn the_diff_of_an_empty_kernel_lists_everything() {
                diff::empty_kernel(MODE);
            }
        }
    )*};
}

test_modes! {
    nftables: crate::mode::NFTABLES;
    iptables_netlink: crate::mode::IPTABLES_NETLINK;
    iptables_nft: crate::mode::IPTABLES_NFT;
    iptables_legacy: crate::mode::IPTABLES_LEGACY;
    ipvs: crate::mode::IPVS;
}
