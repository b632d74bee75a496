//! Years of a cluster, hour by hour: late and missed runs, crashes between writes, configurations that are applied again without
//! their bundle, a Secret that is lost, replicas that read a new certificate two days later.

use super::*;

const HOUR: u64 = 3_600;

/// Numbers of a seed (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn hours(n: u64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000).plus(Duration::from_secs(n * HOUR))
}

/// A bundle of a client; lost after it was applied again, until the next run.
#[derive(Clone, Default)]
struct Bundle {
    has: Vec<Authority>,
    lost: bool,
}

/// A replica of the server: what it shows, and what it will read, and when.
#[derive(Clone, Default)]
struct Replica {
    shows: Option<Leaf>,
    reads: Option<(u64, Leaf)>,
}

#[derive(Default)]
struct World {
    held: HeldCertificates,
    bundles: Vec<Bundle>,
    replicas: Vec<Replica>,
    made: u64,
    promoted: u32,
    signed: u32,
    repaired: u32,
}

impl World {
    fn authority(&mut self, now: Timestamp) -> Authority {
        self.made += 1;
        let id = Digest::of(&[&self.made.to_be_bytes()]);
        Authority { id, begins: now, ends: now.plus(AUTHORITY_LIFE) }
    }

    /// One run, which ends after so many writes: two bundles, and then the Secret.
    fn run(&mut self, hour: u64, writes: usize, dice: &mut Dice) -> bool {
        let now = hours(hour);
        let bundles: Vec<_> = self.bundles.iter().map(|one| one.has.clone()).collect();
        let plan = plan(now, &self.held, &bundles);
        let known: Vec<_> = bundles.concat().into_iter().chain(self.held.bundle.clone()).collect();
        let mut held = self.held.clone();
        match plan.signing {
            SigningStep::Kept => {}
            SigningStep::Promoted => held.signing = held.next.take().map(|one| (one, now)),
            SigningStep::Made => held.signing = Some((self.authority(now), now)),
        }
        match plan.next {
            NextStep::Absent => held.next = None,
            NextStep::Kept => {}
            NextStep::Announced => held.next = Some(self.authority(now)),
        }
        let (signing, _) = held.signing.unwrap();
        let mut bundle = vec![signing];
        bundle.extend(held.next);
        for id in &plan.others {
            bundle.push(*known.iter().find(|one| one.id == *id).unwrap());
        }
        held.bundle.clone_from(&bundle);
        if plan.sign {
            let ends = now.plus(LEAF_LIFE).min(signing.ends);
            held.leaf = Some(Leaf { signer: signing.id, begins: now, ends });
        }
        for (_, one) in self.bundles.iter_mut().enumerate().filter(|(index, _)| *index < writes) {
            self.repaired += u32::from(one.lost);
            *one = Bundle { has: bundle.clone(), lost: false };
        }
        if writes <= self.bundles.len() {
            return false;
        }
        if plan.sign {
            self.signed += 1;
            for one in &mut self.replicas {
                let late = if dice.one_in(8) { dice.below(2 * 24) } else { dice.below(2) };
                one.reads = held.leaf.map(|leaf| (hour + late, leaf));
            }
        }
        self.promoted += u32::from(plan.signing == SigningStep::Promoted);
        self.held = held;
        true
    }

    /// Every certificate that is shown verifies against every bundle that was not lost.
    fn check(&mut self, hour: u64, at: &str) {
        let now = hours(hour);
        for one in &mut self.replicas {
            if let Some((_, leaf)) = one.reads.filter(|(when, _)| *when <= hour) {
                *one = Replica { shows: Some(leaf), reads: None };
            }
            let Some(leaf) = one.shows else { continue };
            assert!(now < leaf.ends, "{at}: a certificate has ended");
            for bundle in self.bundles.iter().filter(|bundle| !bundle.lost) {
                let signer = bundle.has.iter().find(|one| one.id == leaf.signer);
                let signer = signer.unwrap_or_else(|| {
                    panic!("{at}: a bundle has no authority of a certificate that is shown")
                });
                assert!(now < signer.ends && leaf.ends <= signer.ends, "{at}: {leaf:?} {signer:?}");
            }
        }
    }
}

/// Four years; what happened.
fn live(seed: u64, faults: bool) -> World {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut world = World {
        bundles: vec![Bundle::default(); 2],
        replicas: vec![Replica::default(); 3],
        ..World::default()
    };
    let mut due = 0;
    for hour in 0..4 * 365 * 24 {
        let at = format!("seed {seed}, hour {hour}");
        let intact = world.bundles.iter().all(|one| !one.lost);
        if faults && hour > 24 && intact && dice.one_in(24 * 40) {
            let which = dice.below(2);
            for (_, one) in
                world.bundles.iter_mut().enumerate().filter(|(index, _)| *index as u64 == which)
            {
                *one = Bundle { has: Vec::new(), lost: true };
            }
        }
        // With both, what the old authority was is nowhere.
        if faults && hour > 24 && intact && dice.one_in(24 * 200) {
            world.held = HeldCertificates::default();
        }
        if hour >= due {
            let writes =
                if faults && dice.one_in(6) { usize::try_from(dice.below(3)).unwrap() } else { 3 };
            let done = world.run(hour, writes, &mut dice);
            let wait =
                if faults && dice.one_in(20) { dice.below(5 * 24) } else { 22 + dice.below(4) };
            due = hour + if done { wait } else { 1 + dice.below(6) };
        }
        world.check(hour, &at);
    }
    world
}

#[test]
fn over_years_every_certificate_that_is_shown_verifies_against_every_bundle() {
    let (mut promoted, mut repaired) = (0, 0);
    for seed in 0..60 {
        let world = live(seed, true);
        assert!(world.signed > 60, "seed {seed}: {}", world.signed);
        assert!(world.bundles.iter().all(|one| one.has.len() < 8), "seed {seed}: bundles grow");
        promoted += world.promoted;
        repaired += world.repaired;
    }
    assert!(promoted > 60 && repaired > 60, "{promoted} {repaired}");
}

#[test]
fn without_faults_an_authority_signs_for_nine_months_and_bundles_have_at_most_two() {
    for seed in 0..20 {
        let world = live(seed, false);
        assert_eq!((world.made, world.promoted), (6, 5), "seed {seed}");
        assert!(world.bundles.iter().all(|one| one.has.len() <= 2), "seed {seed}");
        assert!((65..=75).contains(&world.signed), "seed {seed}: {}", world.signed);
    }
}

#[test]
fn an_authority_signs_after_one_life_of_a_certificate_in_every_bundle_and_not_before() {
    let day = |n: u64| hours(n * 24);
    let id = |n: u8| Digest::of(&[&[n]]);
    let old = Authority { id: id(1), begins: day(0), ends: day(365) };
    let new = Authority { id: id(2), begins: day(244), ends: day(609) };
    let leaf = Some(Leaf { signer: old.id, begins: day(260), ends: day(290) });
    let held = HeldCertificates {
        signing: Some((old, day(0))),
        next: Some(new),
        bundle: vec![old, new],
        leaf,
    };
    let both = vec![vec![old, new]; 2];
    let early = plan(day(273), &held, &both);
    assert_eq!((early.signing, early.next, early.sign), (SigningStep::Kept, NextStep::Kept, false));
    let ripe = plan(day(274), &held, &both);
    assert_eq!(
        (ripe.signing, ripe.next, ripe.sign),
        (SigningStep::Promoted, NextStep::Absent, true)
    );
    assert_eq!(ripe.others, BTreeSet::from([old.id]));
    // One bundle does not have it: it is repaired now, and the new one signs at the next run.
    assert_eq!(plan(day(274), &held, &[vec![old, new], vec![old]]).signing, SigningStep::Kept);
    let after = HeldCertificates {
        signing: Some((new, day(274))),
        next: None,
        leaf: Some(Leaf { signer: new.id, begins: day(290), ends: day(320) }),
        ..held.clone()
    };
    assert_eq!(plan(day(303), &after, &both).others, BTreeSet::from([old.id]));
    assert_eq!(plan(day(304), &after, &both).others, BTreeSet::new());
    // Nothing is held: what stands in the bundles stays for as long as something it signed may be shown.
    let lost = plan(day(300), &HeldCertificates::default(), &both);
    assert_eq!((lost.signing, lost.sign), (SigningStep::Made, true));
    assert_eq!(lost.others, BTreeSet::from([old.id, new.id]));
    // No run for months: the successor signs at once.
    assert_eq!(plan(day(400), &held, &both).signing, SigningStep::Promoted);
    assert_eq!(plan(day(700), &held, &both).signing, SigningStep::Made);
}
