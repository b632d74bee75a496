//! Forges, registries of packages and tools for code.

use super::super::shape::Part::{Is, Run};
use super::super::shape::{
    ALNUM, BASE64_PADDED, DOTTED, HEX, LOWER, UPPER, URL, URL_PADDED, Vendor, WORD, shape,
};

/// Their keys.
pub(super) const VENDORS: &[Vendor] = &[
    Vendor {
        kind: "github",
        about: "token of GitHub: personal, of an application, of a user, to refresh",
        shapes: &[
            shape!(["ghp_"], ALNUM, 36..=255),
            shape!(["gho_"], ALNUM, 36..=255),
            shape!(["ghu_"], ALNUM, 36..=255),
            shape!(["ghs_"], ALNUM, 36..=255),
            shape!(["ghr_"], ALNUM, 36..=255),
            shape!(["github_pat_"], WORD, 60..=255),
        ],
    },
    Vendor {
        kind: "gitlab",
        about: "token of GitLab: personal, deploy, runner, job, trigger, agent, feed",
        shapes: &[
            shape!(["glpat-"], DOTTED, 20..=128),
            shape!(["gldt-"], DOTTED, 20..=128),
            shape!(["glrt-", "glrtr-"], DOTTED, 20..=128),
            shape!(["glcbt-"], DOTTED, 20..=128),
            shape!(["glptt-"], HEX, 40..=64),
            shape!(["glft-"], DOTTED, 20..=128),
            shape!(["glimt-"], DOTTED, 25..=128),
            shape!(["glagent-"], DOTTED, 50..=1024),
            shape!(["gloas-"], HEX, 64..=64),
            shape!(["glsoat-"], DOTTED, 20..=128),
            shape!(["glffct-"], DOTTED, 20..=128),
            shape!(["glwt-"], DOTTED, 20..=128),
            shape!(["GR1348941"], URL, 20..=64),
        ],
    },
    Vendor {
        kind: "bitbucket",
        about: "app password or token of Bitbucket",
        shapes: &[shape!(["ATBB"], ALNUM, 28..=64), shape!(["ATCTT3xFfG"], URL_PADDED, 120..=255)],
    },
    Vendor {
        kind: "npm",
        about: "token of the npm registry",
        shapes: &[shape!(["npm_"], ALNUM, 36..=64)],
    },
    Vendor {
        kind: "pypi",
        about: "token of the Python package index",
        shapes: &[shape!(["pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"], URL, 50..=1024)],
    },
    Vendor {
        kind: "rubygems",
        about: "key of RubyGems",
        shapes: &[shape!(["rubygems_"], HEX, 48..=48)],
    },
    Vendor {
        kind: "crates_io",
        about: "token of crates.io",
        shapes: &[shape!(["cio"], ALNUM, 32..=32)],
    },
    Vendor { kind: "nuget", about: "key of NuGet", shapes: &[shape!(["oy2"], LOWER, 43..=43)] },
    Vendor {
        kind: "clojars",
        about: "deploy token of Clojars",
        shapes: &[shape!(["CLOJARS_"], LOWER, 60..=60)],
    },
    Vendor {
        kind: "docker_hub",
        about: "access token of Docker Hub: personal or of an organisation",
        shapes: &[shape!(["dckr_pat_"], URL, 27..=64), shape!(["dckr_oat_"], URL, 32..=64)],
    },
    Vendor {
        kind: "jfrog",
        about: "key or reference token of JFrog Artifactory",
        shapes: &[shape!(["AKCp"], ALNUM, 69..=80), shape!(["cmVmdGtu"], BASE64_PADDED, 56..=64)],
    },
    Vendor {
        kind: "deno",
        about: "token of Deno Deploy",
        shapes: &[shape!(["ddp_", "ddw_"], ALNUM, 36..=40)],
    },
    Vendor {
        kind: "sonar",
        about: "token of SonarQube",
        shapes: &[shape!(["sqp_", "squ_", "sqa_"], HEX, 40..=40)],
    },
    Vendor {
        kind: "sourcegraph",
        about: "access token of Sourcegraph",
        shapes: &[
            shape!(["sgp_"], HEX, 40..=40),
            shape!(["sgp_"], &[Run(HEX, 16, 16), Is("_"), Run(HEX, 40, 40)]),
            shape!(["sgp_local_"], HEX, 40..=40),
            shape!(["slk_"], HEX, 64..=64),
        ],
    },
    Vendor {
        kind: "openvsx",
        about: "token of Open VSX",
        shapes: &[shape!(["ovsxat_", "ovsxp_"], URL, 32..=64)],
    },
    Vendor {
        kind: "packagist",
        about: "token of Private Packagist",
        shapes: &[shape!(
            [
                "packagist_ort_",
                "packagist_oat_",
                "packagist_uut_",
                "packagist_ack_",
                "packagist_out_"
            ],
            HEX,
            60..=80
        )],
    },
    Vendor {
        kind: "postman",
        about: "key of Postman, or of its collections",
        shapes: &[
            shape!(["PMAK-"], &[Run(HEX, 24, 24), Is("-"), Run(HEX, 34, 34)]),
            shape!(["PMAT-"], UPPER, 26..=26),
        ],
    },
    Vendor { kind: "readme", about: "key of ReadMe", shapes: &[shape!(["rdme_"], LOWER, 70..=70)] },
    Vendor {
        kind: "scalingo",
        about: "token of Scalingo",
        shapes: &[shape!(["tk-us-"], URL, 48..=48)],
    },
];
