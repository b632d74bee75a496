//! Models and what is built around them.

use super::super::shape::Part::{Is, Run};
use super::super::shape::{ALNUM, HEX, LOWER, UPPER, URL, UUID, Vendor, WORD, shape};

/// Their keys.
pub(super) const VENDORS: &[Vendor] = &[
    Vendor {
        kind: "openai",
        about: "key of OpenAI: of a user, a project, a service account, an administrator",
        shapes: &[
            // The letters of its name in base64 stand in the middle of a key.
            shape!((URL, 20, 100), ["T3BlbkFJ"], &[Run(URL, 20, 100)]),
            shape!(["sk-proj-"], URL, 40..=200),
            shape!(["sk-svcacct-"], URL, 40..=200),
            shape!(["sk-admin-"], URL, 40..=200),
            shape!(["sk-None-"], URL, 40..=200),
            shape!(["sess-"], ALNUM, 40..=40),
        ],
    },
    Vendor {
        kind: "model_key",
        about: "key of a model provider that begins like those of OpenAI",
        shapes: &[shape!(["sk-"], ALNUM, 32..=64)],
    },
    Vendor {
        kind: "anthropic",
        about: "key or token of Anthropic",
        shapes: &[
            shape!(["sk-ant-api03-"], URL, 80..=120),
            shape!(["sk-ant-admin01-"], URL, 80..=120),
            shape!(["sk-ant-oat01-"], URL, 60..=120),
            shape!(["sk-ant-ort01-"], URL, 60..=120),
            shape!(["sk-ant-sid01-"], URL, 80..=120),
        ],
    },
    Vendor {
        kind: "huggingface",
        about: "token of Hugging Face: of a user or an organisation",
        shapes: &[shape!(["hf_"], ALNUM, 34..=40), shape!(["api_org_"], ALNUM, 34..=40)],
    },
    Vendor {
        kind: "replicate",
        about: "token of Replicate",
        shapes: &[shape!(["r8_"], ALNUM, 37..=40)],
    },
    Vendor { kind: "groq", about: "key of Groq", shapes: &[shape!(["gsk_"], ALNUM, 50..=56)] },
    Vendor {
        kind: "perplexity",
        about: "key of Perplexity",
        shapes: &[shape!(["pplx-"], ALNUM, 48..=56)],
    },
    Vendor {
        kind: "openrouter",
        about: "key of OpenRouter",
        shapes: &[shape!(["sk-or-v1-"], HEX, 64..=64)],
    },
    Vendor { kind: "xai", about: "key of xAI", shapes: &[shape!(["xai-"], ALNUM, 80..=80)] },
    Vendor {
        kind: "together",
        about: "key of Together",
        shapes: &[shape!(["tgp_v1_"], URL, 43..=48)],
    },
    Vendor {
        kind: "fireworks",
        about: "key of Fireworks",
        shapes: &[shape!(["fw_"], ALNUM, 22..=26)],
    },
    Vendor {
        kind: "elevenlabs",
        about: "key of ElevenLabs",
        shapes: &[shape!(["sk_"], HEX, 48..=48)],
    },
    Vendor { kind: "voyage", about: "key of Voyage", shapes: &[shape!(["pa-"], URL, 43..=43)] },
    Vendor { kind: "jina", about: "key of Jina", shapes: &[shape!(["jina_"], URL, 55..=64)] },
    Vendor {
        kind: "langsmith",
        about: "key of LangSmith",
        shapes: &[shape!(["lsv2_pt_", "lsv2_sk_"], &[Run(HEX, 32, 32), Is("_"), Run(HEX, 10, 10)])],
    },
    Vendor {
        kind: "langfuse",
        about: "secret key of Langfuse",
        shapes: &[shape!(["sk-lf-"], UUID)],
    },
    Vendor {
        kind: "pinecone",
        about: "key of Pinecone",
        shapes: &[shape!(["pcsk_"], WORD, 55..=80)],
    },
    Vendor {
        kind: "wandb",
        about: "key of Weights & Biases",
        shapes: &[shape!(["wandb_v1_"], WORD, 70..=90)],
    },
    Vendor { kind: "nvidia", about: "key of NVIDIA", shapes: &[shape!(["nvapi-"], URL, 60..=70)] },
    Vendor {
        kind: "cerebras",
        about: "key of Cerebras",
        shapes: &[shape!(["csk-"], LOWER, 48..=48)],
    },
    Vendor {
        kind: "tavily",
        about: "key of Tavily",
        shapes: &[shape!(["tvly-dev-", "tvly-prod-", "tvly-"], ALNUM, 32..=48)],
    },
    Vendor {
        kind: "firecrawl",
        about: "key of Firecrawl",
        shapes: &[shape!(["fc-"], HEX, 32..=32)],
    },
    Vendor { kind: "runpod", about: "key of RunPod", shapes: &[shape!(["rpa_"], UPPER, 40..=50)] },
    Vendor { kind: "e2b", about: "key of E2B", shapes: &[shape!(["e2b_"], HEX, 40..=40)] },
    Vendor {
        kind: "apify",
        about: "token of Apify",
        shapes: &[shape!(["apify_api_"], ALNUM, 36..=46)],
    },
    Vendor { kind: "cursor", about: "key of Cursor", shapes: &[shape!(["key_"], HEX, 64..=64)] },
    Vendor { kind: "mem0", about: "key of Mem0", shapes: &[shape!(["m0-"], ALNUM, 40..=40)] },
    Vendor {
        kind: "llama_cloud",
        about: "key of LlamaCloud",
        shapes: &[shape!(["llx-"], ALNUM, 48..=48)],
    },
    Vendor {
        kind: "browserbase",
        about: "key of Browserbase",
        shapes: &[shape!(["bb_live_"], URL, 27..=40)],
    },
];
