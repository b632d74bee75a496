use super::super::{
    ClassifiedTool, DefinitionMatch, GovernedTool, HostedTools, OfferedKind, PinnedClientTool,
    classify, is_governed_name,
};
use super::*;

#[test]
fn a_granted_tool_is_known_under_the_names_that_clients_give_it() {
    for offered in [
        "llm.chat",
        "llm_chat",
        "mcp__gov__llm_chat",
        "mcp__gov.llm_chat",
        "gov_llm_chat",
        "mcp_gov_llm.chat",
        "gov-llm-chat",
    ] {
        assert!(is_governed_name(offered, "llm.chat"), "{offered}");
    }
    for offered in ["xllm_chat", "llm_chat2", "chat", "LLM_chat", "", "llm__chat"] {
        assert!(!is_governed_name(offered, "llm.chat"), "{offered}");
    }
    assert!(!is_governed_name("x_", ""));
}

fn tool(name: &str, description: &str, schema: &str) -> String {
    format!(
        r#"{{"type":"function","function":{{"name":"{name}","description":"{description}","parameters":{schema}}}}}"#
    )
}

fn governed(name: &str, description: &str) -> GovernedTool {
    let (name, description) = (name.to_owned(), description.to_owned());
    GovernedTool { name, description, schema: json(r#"{"type":"object"}"#) }
}

fn classified(
    tools: &[String],
    granted: &[GovernedTool],
    client: &[PinnedClientTool],
) -> Vec<ClassifiedTool> {
    let body = request(Dialect::Chat, &format!(r#""tools":[{}]"#, tools.join(",")));
    classify(&ask(Dialect::Chat, &body).unwrap(), granted, client)
}

fn kind(
    tool: String,
    granted: &[GovernedTool],
    client: &[PinnedClientTool],
) -> (OfferedKind, DefinitionMatch) {
    let one = classified(&[tool], granted, client).remove(0);
    (one.kind, one.definition)
}

#[test]
fn an_offered_tool_is_governed_if_name_and_description_are_the_granted_ones() {
    let granted = [governed("llm.chat", "asks"), governed("chat", "asks"), governed("other", "d")];
    let is = |name: &str, of: DefinitionMatch| (OfferedKind::Governed(name.to_owned()), of);
    let unknown = (OfferedKind::Unknown, DefinitionMatch::Unpinned);
    let same = r#"{"type":"object"}"#;
    let offered = |name: &str, description: &str, schema: &str| {
        kind(tool(name, description, schema), &granted, &[])
    };
    assert_eq!(offered("mcp__gov__llm_chat", "asks", same), is("llm.chat", DefinitionMatch::Same));
    assert_eq!(
        offered("mcp__gov__llm_chat", "asks", "{}"),
        is("llm.chat", DefinitionMatch::Differs)
    );
    assert_eq!(offered("gov_chat", "asks", same), is("chat", DefinitionMatch::Same));
    assert_eq!(offered("mcp__gov__llm_chat", "asks.", same), unknown);
    assert_eq!(offered("gov_write", "asks", same), unknown);

    let twins = [governed("llm.chat", "asks"), governed("llm_chat", "asks")];
    assert_eq!(kind(tool("gov_llm_chat", "asks", same), &twins, &[]), unknown);
    let listed = [PinnedClientTool { name: "llm_chat".to_owned(), definition: None }];
    assert_eq!(kind(tool("llm_chat", "asks", same), &granted, &listed), unknown);
    let custom = r#"{"type":"custom","custom":{"name":"llm_chat","description":"asks"}}"#;
    assert_eq!(kind(custom.to_owned(), &granted, &[]), unknown);
}

#[test]
fn a_client_tool_is_known_by_its_exact_name_and_its_definition_if_that_is_pinned() {
    let bash = || tool("Bash", "runs", "{}");
    let body = request(Dialect::Chat, &format!(r#""tools":[{}]"#, bash()));
    let definition = ask(Dialect::Chat, &body).unwrap().offered[0].definition();
    let client = |name: &str, definition| PinnedClientTool { name: name.to_owned(), definition };
    let is = |of| (OfferedKind::Client("Bash".to_owned()), of);
    let of = |tool: String, listed: PinnedClientTool| kind(tool, &[], &[listed]);
    assert_eq!(of(bash(), client("Bash", None)), is(DefinitionMatch::Unpinned));
    assert_eq!(of(bash(), client("Bash", Some(definition))), is(DefinitionMatch::Same));
    let differs = (OfferedKind::Unknown, DefinitionMatch::Differs);
    assert_eq!(of(tool("Bash", "runs!", "{}"), client("Bash", Some(definition))), differs);
    let unknown = (OfferedKind::Unknown, DefinitionMatch::Unpinned);
    assert_eq!(of(bash(), client("bash", None)), unknown);
    assert_eq!(of(tool("x_Bash", "runs", "{}"), client("Bash", None)), unknown);
}

#[test]
fn a_name_is_offered_once_and_a_later_tool_of_another_kind_makes_it_unknown() {
    let twice = [tool("f", "a", "{}"), tool("f", "b", "{}")].join(",");
    let error = ask(Dialect::Chat, &request(Dialect::Chat, &format!(r#""tools":[{twice}]"#)));
    assert_eq!(error.unwrap_err().detail(), "model.argument");
    let body = r#"{"model":"m","max_tokens":1,"tools":[{"name":"f","description":"asks","input_schema":{}}],
        "messages":[{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"f","description":"acts","input_schema":{}}}}]}]}"#;
    let later = ask(Dialect::Messages, body).unwrap();
    let kinds: Vec<_> =
        classify(&later, &[governed("f", "asks")], &[]).into_iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [OfferedKind::Unknown, OfferedKind::Unknown]);
}

#[test]
fn a_hosted_tool_that_is_allowed_is_the_providers() {
    let rules = AskRules { hosted_tools: HostedTools::Allow, ..AskRules::default() };
    let body = request(Dialect::Responses, r#""tools":[{"type":"web_search"}]"#);
    let ask = ask_by(&rules, Dialect::Responses, &body).unwrap();
    let client = [PinnedClientTool { name: "web_search".to_owned(), definition: None }];
    assert_eq!(classify(&ask, &[], &client)[0].kind, OfferedKind::Hosted);
}
