//! The models that a run may ask, as the dialects list them.

use serde_json::Value;

use crate::domain::dialect::Dialect;
use crate::enforce::OfferedModel;
use crate::serve::dialect::spoken;

/// The list of the models that a client of this dialect may ask for.
pub(super) fn list(models: &[OfferedModel], dialect: Dialect) -> Value {
    let offered = models.iter().filter(|model| is_for(model, dialect));
    let ids: Vec<&str> = offered.map(|model| model.id.as_str()).collect();
    spoken(dialect).models(&ids)
}

/// The model of this id, if a client of this dialect may ask for it. Clients escape what they put
/// into a path, and some do not.
pub(super) fn one(models: &[OfferedModel], segment: &str, dialect: Dialect) -> Option<Value> {
    let id = unescaped(segment);
    let same = |model: &&OfferedModel| model.id == segment || Some(&model.id) == id.as_ref();
    let found = models.iter().find(same).filter(|model| is_for(model, dialect))?;
    Some(spoken(dialect).model(&found.id))
}

fn is_for(model: &OfferedModel, dialect: Dialect) -> bool {
    model.dialects.iter().any(|offered| spoken(dialect).lists(*offered))
}

/// A text whose `%` escapes are resolved; `None` if they are none.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let decoded = hex::decode(digits).ok()?;
        bytes.extend(decoded);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn models() -> Vec<OfferedModel> {
        let model = |id: &str, dialects: &[Dialect]| OfferedModel {
            id: id.to_owned(),
            dialects: dialects.to_vec(),
        };
        vec![
            model("a/gpt", &[Dialect::Chat]),
            model("both", &[Dialect::Responses, Dialect::Messages]),
            model("claude", &[Dialect::Messages]),
        ]
    }

    #[test]
    fn each_client_is_shown_the_models_of_its_dialects_in_its_shape() {
        let openai = list(&models(), Dialect::Chat);
        assert_eq!(
            openai,
            json!({"object": "list", "data": [
                {"id": "a/gpt", "object": "model", "created": 0, "owned_by": "wicketgate"},
                {"id": "both", "object": "model", "created": 0, "owned_by": "wicketgate"},
            ]})
        );
        let anthropic = list(&models(), Dialect::Messages);
        assert_eq!(
            (&anthropic["first_id"], &anthropic["last_id"]),
            (&"both".into(), &"claude".into())
        );
        assert_eq!(anthropic["data"][1]["type"], "model");
        assert_eq!(anthropic["has_more"], false);
        assert_eq!(list(&[], Dialect::Messages)["first_id"], Value::Null);
    }

    #[test]
    fn a_model_is_found_by_its_id_escaped_or_not() {
        for segment in ["a/gpt", "a%2Fgpt", "%61%2fgpt"] {
            assert_eq!(one(&models(), segment, Dialect::Chat).unwrap()["id"], "a/gpt", "{segment}");
        }
        for segment in ["A/gpt", "claude", "a%2", "a%zzgpt", "", "a%ffgpt"] {
            assert_eq!(one(&models(), segment, Dialect::Chat), None, "{segment}");
        }
        assert!(one(&models(), "claude", Dialect::Messages).is_some());
    }
}
