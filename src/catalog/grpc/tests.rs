//! The schema of a request, from handmade descriptors.

use prost_reflect::{DescriptorPool, MessageDescriptor};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use super::schema;
use crate::domain::canonical;

fn field(name: &str, number: i32, kind: Type, of: Option<&str>) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        type_name: of.map(|of| format!(".p.{of}")),
        ..FieldDescriptorProto::default()
    }
}

fn message(name: &str, field: Vec<FieldDescriptorProto>) -> DescriptorProto {
    DescriptorProto { name: Some(name.to_owned()), field, ..DescriptorProto::default() }
}

fn root(messages: Vec<DescriptorProto>) -> MessageDescriptor {
    let file = FileDescriptorProto {
        name: Some("p.proto".to_owned()),
        package: Some("p".to_owned()),
        syntax: Some("proto3".to_owned()),
        message_type: messages,
        ..FileDescriptorProto::default()
    };
    let pool = DescriptorPool::from_file_descriptor_set(FileDescriptorSet { file: vec![file] });
    pool.unwrap().get_message_by_name("p.Root").unwrap()
}

#[test]
fn a_message_within_itself_is_described_once_and_by_reference() {
    let root = root(vec![message(
        "Root",
        vec![field("next_one", 1, Type::Message, Some("Root")), field("n", 2, Type::Int64, None)],
    )]);
    let text = canonical::text(&schema::of(&root).unwrap());
    let properties = r##""properties":{"n":{"pattern":"^(0|-?[1-9][0-9]{0,18})$","type":"string"},"nextOne":{"$ref":"#/$defs/p.Root"}},"type":"object""##;
    let object = format!(r#""additionalProperties":false,{properties}"#);
    assert_eq!(text, format!(r#"{{"$defs":{{"p.Root":{{{object}}}}},{object}}}"#));
}

#[test]
fn a_request_of_too_many_messages_is_refused() {
    let of = |count: i32| {
        let name = |n: i32| format!("M{n}");
        let parts = (1..=count).map(|n| message(&name(n), Vec::new()));
        let fields = (1..=count)
            .map(|n| field(&format!("f{n}"), n, Type::Message, Some(&name(n))))
            .collect();
        schema::of(&root(parts.chain([message("Root", fields)]).collect()))
    };
    assert!(of(256).is_ok());
    assert!(of(257).unwrap_err().to_string().contains("more than 256"));
}
