#![no_main]

#[global_allocator]
static ALLOCATOR: highwater_fuzz::memory::Watched = highwater_fuzz::memory::Watched;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    highwater_fuzz::Target::named("scripts").expect("it is a target").check(bytes);
});
