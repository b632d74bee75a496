#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wicketgate_fuzz::bodies::reviews::admission(bytes));
