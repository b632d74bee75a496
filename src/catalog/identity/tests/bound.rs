//! Which runs, models and tools a manifest fits.

use super::*;

#[test]
fn a_run_is_bound_only_when_every_claim_fits() {
    let key = key();
    let manifest = verify(TEXT, &[&key], &[&key], 1).unwrap();
    let (a, b, c) = ("a".repeat(64), format!("sha256:{}", "b".repeat(64)), "c".repeat(64));
    let tool = ["repo.read_file".to_owned()];
    let details = |manifest: &Manifest, model: &str, instructions: &[String], tools: &[String]| {
        bind(manifest, model, instructions, tools).map_or_else(
            |m| m.reasons.into_iter().map(|r| r.detail).collect::<Vec<_>>().join(" "),
            |binding| binding.as_str().to_owned(),
        )
    };
    assert_eq!(bind(&manifest, "gpt-5-mini", &[a.clone(), b], &tool), Ok(Binding::Claimed));
    assert_eq!(details(&manifest, "GPT-5-mini", std::slice::from_ref(&a), &[]), "manifest.model");
    assert_eq!(details(&manifest, "gpt-5-mini", &[], &[]), "manifest.instructions");
    assert_eq!(
        details(&manifest, "gpt-5-mini", &[a.clone(), c.clone()], &[]),
        "manifest.instructions"
    );
    assert_eq!(
        details(&manifest, "gpt-5-mini", std::slice::from_ref(&a), &["rm".into()]),
        "manifest.tools"
    );
    let text = TEXT.replace("status: active", "status: suspended");
    let suspended = verify(&text, &[&key], &[&key], 1).unwrap();
    assert_eq!(
        details(&suspended, "x", &[c], &["rm".into(), "y".into()]),
        "manifest.status manifest.model manifest.instructions manifest.tools manifest.tools"
    );
}

/// Every `spec.binding` against every face and binding, with the defaults of what is left out.
#[test]
fn what_a_manifest_accepts_is_its_faces_and_its_minimum_and_no_more() {
    let key = key();
    let names = ["unclaimed", "claimed", "observed"];
    let bare = TEXT
        .replace("  model: {provider: openai, names: [gpt-5-mini]}\n", "")
        .lines()
        .filter(|line| !line.contains("scope:") && !line.contains("instructions:"))
        .fold(String::new(), |text, line| text + line + "\n");
    for (text, default) in [(TEXT, Binding::Claimed), (bare.as_str(), Binding::Unclaimed)] {
        for minimum in [None, Some("unclaimed"), Some("claimed"), Some("observed")] {
            for bits in 0_u8..16 {
                let open = |face: &&Face| bits >> (**face as u8) & 1 == 1;
                let faces: Vec<&str> = Face::ALL.iter().filter(open).map(|f| f.as_str()).collect();
                let mut fields =
                    minimum.map(|m| format!("minimum: {m}")).into_iter().collect::<Vec<_>>();
                // An empty list is left out, which means all of them.
                fields.extend((bits > 0).then(|| format!("faces: [{}]", faces.join(", "))));
                let binding = format!("  binding: {{{}}}\n  tools:", fields.join(", "));
                let manifest =
                    verify(&text.replace("  tools:", &binding), &[&key], &[&key], 1).unwrap();
                assert_eq!(manifest.binding.tier3, Binding::Observed);
                let least = minimum.map_or(default, |text| Binding::parse(text).unwrap());
                for face in Face::ALL {
                    for binding in names.map(|name| Binding::parse(name).unwrap()) {
                        let wanted = if bits > 0 && !open(&face) {
                            "binding.face"
                        } else if binding < least {
                            "binding.minimum"
                        } else {
                            ""
                        };
                        let detail = accept(&manifest, *face, binding).map_or_else(
                            |m| m.reasons.into_iter().map(|r| r.detail).collect::<String>(),
                            |()| String::new(),
                        );
                        assert_eq!(detail, wanted, "{fields:?} {face:?} {binding:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn who_claims_nothing_is_unclaimed_and_who_claims_something_claims_it_whole() {
    let key = key();
    let manifest = verify(TEXT, &[&key], &[&key], 1).unwrap();
    assert_eq!(bind(&manifest, "", &[], &[]), Ok(Binding::Unclaimed));
    assert_eq!(bind_unclaimed(&manifest), Ok(Binding::Unclaimed));
    let tool = ["repo.read_file".to_owned()];
    assert!(bind(&manifest, "", &[], &tool).is_err(), "tools alone claim half");
    assert!(bind(&manifest, "", &["a".repeat(64)], &[]).is_err());
}

#[test]
fn a_model_is_the_manifests_by_its_id_and_its_provider() {
    let key = key();
    let manifest = verify(TEXT, &[&key], &[&key], 1).unwrap();
    assert_eq!(model(&manifest, "gpt-5-mini", Some("openai")), Ok(()));
    for (requested, provider, differences) in [
        ("GPT-5-mini", Some("openai"), 1),
        ("gpt-5", Some("openai"), 1),
        ("gpt-5-mini", Some("OpenAI"), 1),
        ("gpt-5-mini", None, 1),
        ("gpt-5", Some("azure"), 2),
    ] {
        let why = model(&manifest, requested, provider).unwrap_err();
        assert_eq!(why.reasons.len(), differences, "{requested} {provider:?}");
        assert!(why.reasons.iter().all(|reason| reason.detail == "manifest.model"));
    }
    let any = TEXT.replace("  model: {provider: openai, names: [gpt-5-mini]}\n", "");
    let any = verify(&any, &[&key], &[&key], 1).unwrap();
    assert_eq!(model(&any, "x", None), Ok(()));
}

#[test]
fn an_answer_names_a_listed_model() {
    let key = key();
    let manifest = verify(TEXT, &[&key], &[&key], 1).unwrap();
    assert!(responded(&manifest, "anything"));
    let text = TEXT.replace("[gpt-5-mini]", "[gpt-5-mini], responded: [a-1, \"b-*\"]");
    let manifest = verify(&text, &[&key], &[&key], 1).unwrap();
    for (name, fits) in
        [("a-1", true), ("b-", true), ("b-2026", true), ("a-12", false), ("b", false), ("", false)]
    {
        assert_eq!(responded(&manifest, name), fits, "{name}");
    }
}

#[test]
fn a_tool_that_the_agent_runs_is_granted_under_a_name_of_its_own() {
    let key = key();
    let list = "  client_tools: [{name: Bash, tier: T2}, {name: Read, tier: T0}]\n  limits:";
    let manifest = verify(&TEXT.replace("  limits:", list), &[&key], &[&key], 1).unwrap();
    let grant = manifest.client_grant("Bash").unwrap();
    assert_eq!((grant.name.as_str(), grant.tier), ("client.Bash", Some(Tier::T2)));
    assert_eq!(manifest.client_tool("Read").unwrap().tier, Tier::T0);
    assert!(manifest.client_grant("bash").is_none());
    assert!(manifest.client_grant("repo.read_file").is_none());
    assert!(manifest.grant(&grant.name).is_none());
}

#[test]
fn a_run_below_another_has_only_the_client_tools_that_both_list() {
    let key = key();
    let read = |list: &str| {
        let list = format!("  client_tools: [{list}]\n  limits:");
        std::sync::Arc::new(verify(&TEXT.replace("  limits:", &list), &[&key], &[&key], 1).unwrap())
    };
    let above = Grants::of(read("{name: Bash, tier: T2}, {name: Read, tier: T0}"));
    let below = above.below(read("{name: Bash, tier: T1}, {name: Write, tier: T1}"));
    assert_eq!(below.client("Bash").unwrap().tier, Some(Tier::T2));
    assert!(below.client("Read").is_none() && below.client("Write").is_none());
    assert_eq!(above.client("Read").unwrap().tier, Some(Tier::T0));
    let lowest = below.below(read("{name: Bash, tier: T0}, {name: Read, tier: T0}"));
    assert_eq!(lowest.client("Bash").unwrap().tier, Some(Tier::T2));
    assert!(lowest.client("Read").is_none());
}
