//! Functions that an agent's own SELECT may call without the operator naming them: pure ones, that
//! reach no file, no network, no other session and no setting, and run no text as SQL.

/// Of PostgreSQL, all in `pg_catalog`.
#[rustfmt::skip]
pub const POSTGRES: &[&str] = &[
    // aggregates and windows
    "array_agg", "avg", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "corr", "count", "covar_pop",
    "covar_samp", "cume_dist", "dense_rank", "every", "first_value", "grouping", "json_agg",
    "json_object_agg", "jsonb_agg", "jsonb_object_agg", "lag", "last_value", "lead", "max", "min", "mode",
    "nth_value", "ntile", "percent_rank", "percentile_cont", "percentile_disc", "rank", "regr_avgx",
    "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
    "row_number", "stddev", "stddev_pop", "stddev_samp", "string_agg", "sum", "var_pop", "var_samp",
    "variance", "any_value",
    // conditions
    "coalesce", "greatest", "least", "nullif", "num_nonnulls", "num_nulls",
    // numbers
    "abs", "acos", "asin", "atan", "atan2", "cbrt", "ceil", "ceiling", "cos", "cot", "degrees", "div", "exp",
    "factorial", "floor", "gcd", "lcm", "ln", "log", "log10", "min_scale", "mod", "pi", "power", "radians",
    "random", "round", "scale", "sign", "sin", "sqrt", "tan", "trim_scale", "trunc", "width_bucket",
    // text
    "ascii", "bit_length", "btrim", "char_length", "character_length", "chr", "concat", "concat_ws", "decode",
    "encode", "format", "initcap", "left", "length", "lower", "lpad", "ltrim", "md5", "normalize",
    "octet_length", "overlay", "position", "quote_ident", "quote_literal", "quote_nullable",
    "regexp_count", "regexp_instr", "regexp_like", "regexp_match", "regexp_matches", "regexp_replace",
    "regexp_split_to_array", "regexp_split_to_table", "regexp_substr", "repeat", "replace", "reverse", "right",
    "rpad", "rtrim", "sha224", "sha256", "sha384", "sha512", "split_part", "starts_with",
    "string_to_array", "string_to_table", "strpos", "substr", "substring", "to_hex", "translate", "trim",
    "unistr", "upper",
    // dates and times
    "age", "clock_timestamp", "current_date", "current_time", "current_timestamp", "date_bin", "date_part",
    "date_trunc", "extract", "isfinite", "justify_days", "justify_hours", "justify_interval", "localtime",
    "localtimestamp", "make_date", "make_interval", "make_time", "make_timestamp", "make_timestamptz", "now",
    "statement_timestamp", "timezone", "to_char", "to_date", "to_number", "to_timestamp",
    "transaction_timestamp",
    // arrays, ranges and series
    "array_append", "array_cat", "array_dims", "array_length", "array_lower", "array_ndims",
    "array_position", "array_positions", "array_prepend", "array_remove", "array_replace", "array_to_string",
    "array_upper", "cardinality", "daterange", "generate_series", "generate_subscripts", "int4range",
    "int8range", "isempty", "lower_inc", "lower_inf", "numrange", "range_merge", "tsrange", "tstzrange",
    "unnest", "upper_inc", "upper_inf",
    // JSON
    "array_to_json", "json_array_elements", "json_array_elements_text", "json_array_length",
    "json_build_array", "json_build_object", "json_each", "json_each_text", "json_extract_path",
    "json_extract_path_text", "json_object", "json_object_keys", "json_strip_nulls", "json_typeof",
    "jsonb_array_elements", "jsonb_array_elements_text", "jsonb_array_length", "jsonb_build_array",
    "jsonb_build_object", "jsonb_each", "jsonb_each_text", "jsonb_extract_path", "jsonb_extract_path_text",
    "jsonb_object", "jsonb_object_keys", "jsonb_path_exists", "jsonb_path_match", "jsonb_path_query",
    "jsonb_path_query_array", "jsonb_path_query_first", "jsonb_pretty", "jsonb_set", "jsonb_strip_nulls",
    "jsonb_typeof", "row_to_json", "to_json", "to_jsonb",
    // text search and the rest
    "phraseto_tsquery", "plainto_tsquery", "pg_typeof", "setweight", "strip", "to_tsquery", "to_tsvector",
    "ts_headline", "ts_rank", "ts_rank_cd", "websearch_to_tsquery", "gen_random_uuid", "host", "masklen",
    "network", "family", "netmask", "broadcast",
];

/// Of SQLite. Not `json_patch`: it takes the square of its input's size in time, in one step that
/// cannot be interrupted.
#[rustfmt::skip]
pub const SQLITE: &[&str] = &[
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "avg", "ceil", "ceiling", "char",
    "coalesce", "concat", "concat_ws", "cos", "cosh", "count", "cume_dist", "current_date", "current_time",
    "current_timestamp", "date", "datetime", "degrees", "dense_rank", "exp", "extract", "first_value", "floor",
    "format", "glob", "group_concat", "hex", "ifnull", "iif", "instr", "json", "json_array",
    "json_array_length", "json_each", "json_error_position", "json_extract", "json_group_array",
    "json_group_object", "json_insert", "json_object", "json_pretty", "json_quote",
    "json_remove", "json_replace", "json_set", "json_tree", "json_type", "json_valid", "julianday", "lag",
    "last_value", "lead", "length", "like", "likelihood", "likely", "ln", "log", "log10", "log2", "lower",
    "ltrim", "max", "min", "mod", "nth_value", "ntile", "nullif", "octet_length", "percent_rank", "pi",
    "pow", "power", "printf", "quote", "radians", "random", "randomblob", "rank", "replace", "round",
    "row_number", "rtrim", "sign", "sin", "sinh", "sqrt", "strftime", "string_agg", "substr", "substring", "sum",
    "tan", "tanh", "time", "timediff", "total", "trim", "trunc", "typeof", "unhex", "unicode", "unixepoch",
    "unlikely", "upper", "zeroblob", "position", "overlay",
];

/// Names SQLite's authorizer gives to operators.
pub const SQLITE_OPERATORS: &[&str] = &["->", "->>", "like", "glob"];
