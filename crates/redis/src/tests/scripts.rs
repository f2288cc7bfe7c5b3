//! Scripts that mean harm, scripts that run again, and what of a script stands.

use super::clock::{cpu_ms, wall_ms};
use super::double::{Client, Node, multibulk};
use crate::keyspace::{FUNCTIONS, SCRIPTS};
use crate::scripts::budget::{Clocks, Limits};

fn eval(client: &mut Client, script: &str) -> String {
    ask(client, &["EVAL", script, "0"])
}

fn ask(client: &mut Client, words: &[&str]) -> String {
    String::from_utf8_lossy(&client.send_bytes(&multibulk(words.iter().map(|word| word.as_bytes()))))
        .into_owned()
}

fn bounded(instructions: u64, mib: usize) -> Client {
    crate::scripts::budget::limit(Limits { instructions, memory_bytes: mib << 20, clock: None });
    Node::new().client()
}

/// As in Redis: an error of a library's function names the script's line.
#[test]
fn a_substitution_that_fails_names_its_line() {
    let mut client = bounded(200_000, 16);
    let said = client.ask(
        "EVAL \"local ok, why = pcall(function() local s = string.gsub('abc', 'b', '%2') end) return why\" 0",
    );
    assert!(said.contains("user_script:1: invalid capture index"), "{said}");
}

#[test]
fn nothing_goes_on_for_ever() {
    let mut client = bounded(200_000, 16);
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "local function f() return pcall(f) end while true do f() end",
        "repeat local ok = pcall(error) until false",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do local co = coroutine.create(function() coroutine.yield() end) coroutine.resume(co) end",
        "setmetatable({}, {__index = function(t, k) while true do end end})[1] = nil return setmetatable({}, {__index = function() while true do end end}).x",
        "table.sort({3,2,1}, function() while true do end end)",
        "string.gsub('abc', '.', function() while true do end end)",
        "for w in function() return 1 end do end",
        "load(function() while true do end end)",
        "return string.find(string.rep('a', 100000), '.-.-.-.-b')",
        "return string.gsub(string.rep('a', 100000), '.-.-.-.-b', 'x')",
        "local s, i = string.rep('x', 10000), 0 while true do i = i + 1 local t = s .. i end",
        "while true do redis.call('get', 'a') end",
        "while true do redis.pcall('nosuch') end",
        "while true do cjson.encode({1, 2, 3}) end",
    ] {
        let reply = eval(&mut client, script);
        assert!(reply.contains("limits.script_instructions"), "{script}: {reply}");
    }
    assert_eq!(eval(&mut client, "return 1"), ":1\r\n");
}

thread_local! {
    static CLOCK: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A clock by which every look takes a ms.
fn slow() -> u64 {
    CLOCK.set(CLOCK.get() + 1);
    CLOCK.get()
}

#[test]
fn what_no_count_sees_ends_by_the_clock() {
    crate::scripts::budget::limit(Limits {
        instructions: 0,
        memory_bytes: 16 << 20,
        clock: Some(Clocks { wall: slow, cpu: slow }),
    });
    let mut client = Node::new().client();
    let reply = eval(&mut client, "local s = string.rep('x', 1000) while true do local t = s .. 'y' end");
    assert!(reply.contains("after 5 seconds"), "{reply}");
    assert_eq!(eval(&mut client, "return 1"), ":1\r\n");
}

#[test]
fn memory_is_bounded() {
    let mut client = bounded(50_000_000, 8);
    for script in [
        "return string.rep('x', 1000000000)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = {} end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "return ('x'):rep(100):rep(1000000)",
        "local t = {} for i = 1, 2000 do t[i] = string.rep('x', 1000) end return table.concat(t):rep(100)",
        "return string.gsub(string.rep('a', 100000), 'a', string.rep('b', 1000))",
        "local t = {} for i = 1, 1000000 do t[i] = coroutine.create(function() end) end",
        "local s = string.rep('x', 3900000) return cmsgpack.pack(s, s, s)",
    ] {
        let reply = eval(&mut client, script);
        assert!(
            reply.contains("limits.script_memory_mb, which is 8"),
            "{script}: {}",
            &reply[..reply.len().min(200)]
        );
    }
    // Garbage is none.
    assert_eq!(
        eval(&mut client, "for i = 1, 300 do local s = string.rep('x', 100000) end return 1"),
        ":1\r\n"
    );
    assert!(eval(&mut client, "return {pcall(string.rep, 'x', 1e9)}").contains("not enough memory"));
    assert_eq!(eval(&mut client, "return 1"), ":1\r\n");
}

#[test]
fn nothing_overflows_the_stack() {
    let mut client = bounded(50_000_000, 64);
    let told = |reply: &str, what: &str| assert!(reply.contains(what), "{}", &reply[..reply.len().min(300)]);
    told(&eval(&mut client, "local function f() return 1 + f() end return f()"), "stack overflow");
    told(
        &eval(
            &mut client,
            "local function f() local ok, e = pcall(f) if not ok then error(e, 0) end end f()",
        ),
        "stack overflow",
    );
    told(&eval(&mut client, "local function f() coroutine.wrap(f)() end f()"), "stack overflow");
    let nested = "local function f(n) if n > 150 then n = 0 coroutine.wrap(f)(0) else local ok, e = pcall(f, n + 1) if not ok then error(e, 0) end end end f(0)";
    told(&eval(&mut client, nested), "stack overflow");
    told(
        &eval(&mut client, "return string.find(string.rep('a', 1000), string.rep('a?', 1000))"),
        "pattern too complex",
    );
    told(&eval(&mut client, "local t = {} t[1] = t return t"), "reached lua stack limit");
    told(&eval(&mut client, "local t = {} t.x = t return cjson.encode(t)"), "excessive nesting");
    told(
        &eval(&mut client, "return cjson.decode(string.rep('[', 100000))"),
        "too many nested data structures",
    );
    told(&eval(&mut client, r"return cmsgpack.unpack(string.rep('\145', 100000))"), "Too many nested");
    told(&eval(&mut client, "local t = {} for i = 1, 100 do t = {t} end return t"), "*1\r\n*1\r\n*1\r\n");
    told(&eval(&mut client, &format!("return {}1{}", "(".repeat(1000), ")".repeat(1000))), "Error compiling");
    told(
        &eval(
            &mut client,
            "local t = {} for i = 1, 7900 do t[i] = 'x' end return #redis.call('mget', unpack(t))",
        ),
        ":7900\r\n",
    );
    told(&eval(&mut client, "return select('#', unpack({}, 1, 1e7))"), "too many results");
}

#[test]
fn a_script_leaves_nothing_behind() {
    let mut client = bounded(1_000_000, 16);
    for script in [
        "getmetatable('').x = 1",
        "getmetatable('').__index = nil",
        "getmetatable('').__index.upper = nil",
        "string.upper = nil",
        "rawset(string, 'upper', nil)",
        "table.insert(redis, 1)",
        "table.insert(string, 1)",
        "table.insert(_G, 'x') ",
        "setmetatable(string, nil)",
        "setmetatable(_G, nil)",
        "getmetatable(_G).__index.print = 1",
        "rawset(getmetatable(_G), '__index', {})",
        "rawset(getmetatable(_G).__index, 'leak', 1)",
        "_G.leak = 1",
        "redis.call = nil",
        "KEYS = 1",
        "cjson.encode_max_depth(1)",
        "cjson.encode_sparse_array(true)",
        "math.randomseed(1)",
        "redis.setresp(3)",
    ] {
        eval(&mut client, script);
        let sound = "return {('x'):upper(), #string, #redis, type(redis.call), cjson.encode({{{1}}}), tostring(rawget(_G, 'leak')), tostring(rawget(_G, 1)), redis.call('get', 'nosuch')}";
        let reply = eval(&mut client, sound);
        let wanted = "*8\r\n$1\r\nX\r\n:0\r\n:0\r\n$8\r\nfunction\r\n$7\r\n[[[1]]]\r\n$3\r\nnil\r\n$3\r\nnil\r\n$-1\r\n";
        assert_eq!(reply, wanted, "after {script}");
        assert!(eval(&mut client, "return leak").contains("nonexistent"), "after {script}");
    }
}

#[test]
fn compiled_chunks_are_refused() {
    let mut client = bounded(1_000_000, 16);
    assert_eq!(
        eval(&mut client, "return tostring(loadstring(string.dump(function() return 1 end)))"),
        "$3\r\nnil\r\n"
    );
    let piece = "local s = string.dump(function() return 1 end) local given return tostring(load(function() if not given then given = true return s end end))";
    assert_eq!(eval(&mut client, piece), "$3\r\nnil\r\n");
    assert!(ask(&mut client, &["EVAL", "\x1bLua", "0"]).starts_with("-ERR"));
}

#[test]
fn what_a_failed_script_wrote_stands_unless_it_says_otherwise() {
    let mut client = bounded(1_000_000, 16);
    eval(&mut client, "redis.call('set', 'a', '1') error('stop')");
    assert_eq!(client.ask("GET a"), "$1\r\n1\r\n");
    assert!(
        eval(&mut client, "#!lua flags=roll-back\nredis.call('set', 'a', '2') error('stop')")
            .contains("stop")
    );
    assert!(
        eval(
            &mut client,
            "#!lua flags=roll-back\nredis.call('set', 'a', '2') return redis.error_reply('NO no')"
        )
        .starts_with("-NO no")
    );
    assert!(
        eval(&mut client, "#!lua flags=roll-back\nredis.call('set', 'a', '2') while true do end")
            .contains("limits")
    );
    assert_eq!(client.ask("GET a"), "$1\r\n1\r\n");
    assert_eq!(eval(&mut client, "#!lua flags=roll-back\nreturn redis.call('incr', 'a')"), ":2\r\n");
    client.ask("MULTI");
    client.ask("SET b 1");
    eval(&mut client, "#!lua flags=roll-back\nredis.call('set', 'a', '2') error('stop')");
    assert!(client.ask("EXEC").starts_with("-ERR user_script:2: stop"));
    assert_eq!(client.ask("EXISTS b"), ":0\r\n");
}

#[test]
fn an_attempt_repeats_itself() {
    let script = "local t = {} for i = 1, 5 do t[i] = tostring(math.random()) end t[6] = redis.call('time')[1] t[7] = os.clock() * 1e9 return t";
    let replies: Vec<String> = (0..3).map(|_| eval(&mut Node::new().client(), script)).collect();
    assert!(replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
}

#[test]
fn texts_are_rows_and_bounded() {
    let node = Node::new();
    let mut client = node.client();
    assert_eq!(eval(&mut client, "return 1"), ":1\r\n");
    assert_eq!(client.ask("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0"), ":1\r\n");
    assert_eq!(node.rows(SCRIPTS), 2);
    assert_eq!(ask(&mut client, &["EVAL_RO", "return 2", "0"]), ":2\r\n");
    assert_eq!(node.rows(SCRIPTS), 2, "what only reads keeps nothing");
    let long = "--".to_string() + &"x".repeat(1 << 20);
    assert!(ask(&mut client, &["EVAL", &long, "0"]).contains("exceeds"));
    for number in 0..40 {
        let script = format!("--{number}{}", "x".repeat((1 << 20) - 10));
        assert_eq!(ask(&mut client, &["EVAL", &script, "0"]), "$-1\r\n");
    }
    assert_eq!(node.rows(SCRIPTS), 2 + 31);
    let script = format!("--{}", "y".repeat((1 << 20) - 10));
    assert!(ask(&mut client, &["SCRIPT", "LOAD", &script]).contains("SCRIPT FLUSH"));
    assert_eq!(client.ask("SCRIPT FLUSH"), "+OK\r\n");
    assert_eq!(node.rows(SCRIPTS), 0);
    assert!(client.ask("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0").starts_with("-NOSCRIPT"));
}

#[test]
fn libraries_come_and_go() {
    let node = Node::new();
    let mut client = node.client();
    let counts =
        "#!lua name=counts\nlocal n = 0\nredis.register_function('count', function() n = n + 1 return n end)";
    assert_eq!(ask(&mut client, &["FUNCTION", "LOAD", counts]), "$6\r\ncounts\r\n");
    assert_eq!(client.ask("FCALL count 0"), ":1\r\n");
    assert_eq!(client.ask("FCALL COUNT 0"), ":1\r\n", "a call begins anew");
    let payload = client.send_bytes(&multibulk([&b"FUNCTION"[..], b"DUMP"].into_iter()));
    let start = payload.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let payload = &payload[start..payload.len() - 2];
    let restore = |client: &mut Client, policy: &str| {
        let words = [&b"FUNCTION"[..], b"RESTORE", payload, policy.as_bytes()];
        String::from_utf8_lossy(&client.send_bytes(&multibulk(words.into_iter()))).into_owned()
    };
    assert!(restore(&mut client, "append").contains("already exists"));
    assert_eq!(client.ask("FCALL count 0"), ":1\r\n");
    assert_eq!(restore(&mut client, "replace"), "+OK\r\n");
    assert_eq!(restore(&mut client, "flush"), "+OK\r\n");
    assert_eq!(client.ask("FUNCTION DELETE counts"), "+OK\r\n");
    assert_eq!(node.rows(FUNCTIONS), 0);
    assert_eq!(restore(&mut client, "append"), "+OK\r\n");
    assert_eq!(client.ask("FCALL count 0"), ":1\r\n");
}

#[test]
fn a_million_keys_are_fine() {
    let mut client = bounded(50_000_000, 64);
    let mut words: Vec<&[u8]> = vec![b"EVAL", b"return #KEYS", b"1000000"];
    words.extend(std::iter::repeat_n(&b"key"[..], 1_000_000));
    assert_eq!(client.send_bytes(&multibulk(words.into_iter())), b":1000000\r\n");
    assert_eq!(
        eval(&mut client, "local t = {} for i = 1, 100000 do t[i] = i end return t").len(),
        9 + 3 * 100_000 + 488_895
    );
}

#[test]
fn who_waits_for_data_is_woken_by_a_script_that_does_not_name_it() {
    let node = Node::new();
    let (mut waiter, mut writer) = (node.client_of(0x100), node.client_of(0x200));
    waiter.ask("BLPOP list 0");
    assert_eq!(eval(&mut writer, "return redis.call('rpush', 'li' .. 'st', 'x')"), ":1\r\n");
    assert_eq!(node.woken(), vec![0x100]);
}

/// Once: one `EVAL` ended the process, and its retry the next leader's: `unpack` of a range that overflows in C
/// (CVE-2025-46817)
#[test]
fn no_range_of_unpack_overflows() {
    let mut client = bounded(1_000_000, 16);
    for range in [
        "{}, 0, 2^31 - 1",
        "{}, -2^31, 2^31 - 1",
        "{1, 2, 3}, -2, 2147483647",
        "{1, 2, 3}, -2147483648, 3",
        "{}, 1, 8000",
        "{}, -2^31, 0",
        "{}, 2^31 - 9000, 2^31 - 1",
    ] {
        let reply = eval(&mut client, &format!("return select('#', unpack({range}))"));
        assert!(reply.contains("too many results to unpack"), "{range}: {reply}");
    }
    for (range, count) in [
        ("{1, 2, 3}", 3),
        ("{1, 2, 3}, 2", 2),
        ("{}, 2^31 - 1, 2^31 - 1", 1),
        ("{}, 5, 1", 0),
        ("{}, 1, 7900", 7900),
        ("{}, 1, 1e300", 0),
        ("{}, 1, 0/0", 0),
    ] {
        assert_eq!(
            eval(&mut client, &format!("return select('#', unpack({range}))")),
            format!(":{count}\r\n"),
            "{range}"
        );
    }
    assert!(
        eval(&mut client, "return unpack(1)")
            .contains("bad argument #1 to 'unpack' (table expected, got number)")
    );
}

/// Work that takes long inside of one instruction, or of one function of C, is counted as what it is: each of these ran for minutes.
/// Once: scripts that no bound ended: the clock was looked at only between instructions, so `table.insert({}, -1e9, 1)`,
/// `upper` of long strings in a loop and comparisons of 30 MB took minutes, and deposed their leader.
#[test]
fn what_takes_long_in_c_is_counted() {
    let mut client = bounded(2_000_000, 32);
    for script in [
        "local s = string.rep('x', 1e6) while true do s:upper() end",
        "local s = string.rep('x', 1e6) while true do s:lower() end",
        "local s = string.rep('x', 1e6) while true do s:reverse() end",
        "local s = string.rep('x', 1e6) while true do s:find('y', 1, true) end",
        "local s = string.rep('x', 1e6) while true do s:sub(2) end",
        "local s = string.rep('x', 1e6) while true do ('%s'):format(s) end",
        "local s = string.rep('x', 1e6) while true do ('%q'):format(s) end",
        "local s = string.rep('1', 1e6) while true do tonumber(s, 16) end",
        "local s = string.rep('x', 1e6) local t = {s, s} while true do table.concat(t) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t, 1) end",
        "local t = {} for i = 1, 1e5 do t[i] = i % 100 end while true do table.sort(t) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, rawequal) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.foreachi(t, type) end",
        "local s = string.rep('x', 5e4) while true do s:find('[' .. string.rep('b', 1000) .. ']') end",
        "local s = string.rep('x', 5e4) while true do s:find('[^' .. string.rep('b', 1000) .. ']*y') end",
        "local s = string.rep('x', 5e4) while true do s:gsub('', 'y') end",
        "local s = string.rep('x', 5e4) while true do for m in s:gmatch('') do end end",
        "cjson.encode_sparse_array(true, 0) while true do cjson.encode({[1e6] = 1}) end",
        "local t = {} for i = 1, 40 do t = {t, t} end return t",
        "local t = {} for i = 1, 40 do t = {t, t} end return cjson.encode(t)",
        "local s = 'return ' .. string.rep('x, ', 1000) .. 'x' while true do loadstring(s) end",
        "while true do coroutine.wrap(function() for i = 1, 40 do end end)() end",
    ] {
        let reply = eval(&mut client, script);
        assert!(reply.contains("limits.script_instructions"), "{script}: {}", &reply[..reply.len().min(200)]);
    }
    for (script, told) in [
        ("table.insert({}, -1e9, 1)", "position out of bounds"),
        ("table.insert({}, -2^31, 1)", "position out of bounds"),
        (
            "local t, k = {}, 1 while k < 2^31 do t[k] = 1 k = k * 2 end t[2^31 - 1] = 1 t[3] = 1 table.sort(t)",
            "$-1\r\n",
        ),
        (
            "return loadstring(string.rep('x', 2e6)) == nil and select(2, loadstring(string.rep('x', 2e6)))",
            "too long",
        ),
    ] {
        let reply = eval(&mut client, script);
        assert!(reply.contains(told), "{script}: {reply}");
    }
    let inserted = eval(
        &mut client,
        "local t = {2} table.insert(t, 1, 1) table.insert(t, 3) table.insert(t, 0, 0) local s = '' for i = 0, 4 do s = s .. tostring(t[i]) .. ' ' end return s",
    );
    assert!(inserted.contains("0 nil 1 2 3"), "{inserted}");
    assert_eq!(eval(&mut client, "return 1"), ":1\r\n");
}

/// Instructions that take long and owe nothing: the alarm ends them, at the next one.
#[test]
fn what_nobody_stands_in_front_of_ends_by_the_alarm() {
    let clock = Clocks { wall: wall_ms, cpu: cpu_ms };
    crate::scripts::budget::limit(Limits { instructions: 0, memory_bytes: 64 << 20, clock: Some(clock) });
    let mut client = Node::new().client();
    for script in [
        "local a, b = string.rep('\\0', 2e7), string.rep('\\0', 2e7) .. 'a' while true do local c = a < b end",
        "local co = coroutine.wrap(function() local a = string.rep('x', 2e7) local b = a .. 'y' while true do local c = a .. 'y' end end) co()",
    ] {
        let began = cpu_ms();
        let reply = eval(&mut client, script);
        let took = cpu_ms() - began;
        assert!(reply.contains("seconds of CPU time"), "{script}: {reply}");
        assert!(took < crate::scripts::budget::PATIENCE_MS * 12 / 10, "{script}: {took} ms");
        assert_eq!(eval(&mut client, "return 1"), ":1\r\n");
    }
}

/// Keys from 2^52 on whose hashes are some multiples of a number: spread in a table of half as many nodes, and all in one chain of one with so many.
fn crowd(nodes: &str, keys: &str, then: &str) -> String {
    format!(
        "local M = {nodes} - 1 local C = math.floor(2^32 / M) local t = {{}} for i = 0, {keys} - 1 do local c, a = i % C, math.floor(i / C) \
         t[2^52 + a * 2^32 + (c * M - 0x43300000 - a) % 2^32] = 1 end {then}"
    )
}

/// Numbers that meet in a table are refused; those of ordinary programs, which Lua's hash may spread badly, are not.
#[test]
fn a_table_grows_unless_its_numbers_are_chosen_to_meet() {
    let mut client = bounded(400_000_000, 64);
    for nodes in ["2^15", "2^17", "2^18", "2^19"] {
        let began = cpu_ms();
        let reply = eval(&mut client, &crowd(nodes, &format!("{nodes} / 2 + 1"), "return 'grown'"));
        assert!(reply.contains("Lua's hash takes for one"), "{nodes}: {reply}");
        let took = cpu_ms() - began;
        assert!(took < 3_000, "{nodes}: {took} ms");
        let caught = crowd(nodes, &format!("{nodes} / 2 + 1"), "");
        let reply = eval(&mut client, &format!("local ok, why = pcall(function() {caught} end) return why"));
        assert_eq!(reply, "$17\r\nnot enough memory\r\n");
    }
    // Those that spread.
    assert_eq!(eval(&mut client, &crowd("2^14", "2^13 + 1", "return 1")), ":1\r\n");
    for key in [
        "i",
        "-i",
        "i * 2",
        "i * 10",
        "i * 1000",
        "i * 4096",
        "i * 65536",
        "i * 2^20",
        "i * 2^30",
        "i + 0.5",
        "i / 2",
        "i / 10",
        "i * 0.1",
        "1 / (i + 1)",
        "1.7e12 + i",
        "1.7e12 + i * 1000",
        "1.7e12 + i * 60000",
        "2^40 + i * 256",
        "math.random()",
        "math.random(1e9)",
        "i * i",
        "2^52 + i",
        "2^52 + i * 2^20",
        "i * 86400",
        "20000000 + i",
        "-i * 1000000",
    ] {
        let script = format!(
            "local t, n = {{}}, 0 for i = 0, 140000 do t[{key}] = 1 end for k in pairs(t) do n = n + 1 end return n > 100000"
        );
        let reply = eval(&mut client, &script);
        assert_eq!(reply, ":1\r\n", "{key}");
    }
}

/// The count of a run's memory is the same while the growth of tables is looked at.
#[test]
fn a_large_run_s_memory_is_bounded_as_before() {
    let mut client = bounded(40_000_000, 8);
    for fill in ["t[i] = i", "t['k' .. i] = i", "t[i + 0.5] = i", "t[#t + 1] = {}", "t = {t}"] {
        let reply = eval(&mut client, &format!("local t = {{}} for i = 1, 1e7 do {fill} end return 1"));
        assert!(reply.contains("limits.script_memory_mb, which is 8"), "{fill}: {reply}");
        assert_eq!(eval(&mut client, "return #string.rep('x', 7e6)"), ":7000000\r\n");
    }
}

/// One function of C or of ours, called once, that would take from ten seconds to hours: no instruction ends it.
/// Once: `table.remove` and `insert` of a table in which each moved item finds no room, `concat` of numbers whose texts
/// meet, took from a minute to hours; `cjson.encode` and `cmsgpack.pack` of keys that meet 10 s.
/// Once: `gsub` with a replacement of many `%0` took all memory, outside of every bound: the result's length was looked
/// at behind each match, not within it.
/// Once: what a script left in a library's table (`rawset(string, ..)`) could take seconds to be removed behind its end.
/// Once: one call of a function of C held a worker for up to hours: `table.sort` of a thousand references to one string
/// of zeros, `math.max`, `string.char`, `format`, `bit.band` of thousands of references to one long string,
/// `table.foreach` of nested `foreach`s, `table.remove` from a table that says to be long.
/// Once: a coroutine whose results found no room left the alarm at the wrong place: 500 instructions that take 25 ms
/// each, without a look.
#[test]
fn one_call_takes_no_longer_than_a_run() {
    let clock = Clocks { wall: wall_ms, cpu: cpu_ms };
    crate::scripts::budget::limit(Limits { clock: Some(clock), ..Limits::default() });
    let mut client = Node::new().client();
    let blanks = "local s = string.rep(' ', 2e7) .. '1' local t = {} for i = 1, 7000 do t[i] = s end ";
    let zeros = "local s = string.rep('\\0', 1e6) local t = {} for i = 1, 1000 do t[i] = s end ";
    for script in [
        format!("{blanks} return math.max(unpack(t))"),
        format!("{blanks} return math.min(unpack(t))"),
        format!("{blanks} return string.char(unpack(t))"),
        format!("{blanks} return string.format(string.rep('%d', 6000), unpack(t, 1, 6000))"),
        format!("{blanks} return bit.band(unpack(t))"),
        format!("{blanks} return bit.bxor(unpack(t))"),
        format!("{blanks} return struct.pack(string.rep('i', 6000), unpack(t, 1, 6000))"),
        format!("{blanks} return cmsgpack.pack(unpack(t))"),
        format!("{blanks} return cjson.encode(t)"),
        format!("{blanks} return redis.call('mset', unpack(t))"),
        format!("{blanks} return redis.pcall('mset', unpack(t))"),
        format!("{blanks} return redis.acl_check_cmd('mset', unpack(t))"),
        format!("{blanks} return table.concat(t)"),
        format!("{blanks} redis.log(redis.LOG_DEBUG, unpack(t)) return 'logged'"),
        format!("{zeros} table.sort(t) return 'sorted'"),
        format!("{zeros} for i = 1001, 1100 do t[i] = s end table.sort(t) return 'sorted'"),
        format!("{blanks} table.sort(t, function(a, b) return tonumber(a) < tonumber(b) end)"),
        format!("{blanks} table.sort(t, math.fmod)"),
        "local t = {} for i = 1, 1000 do t['x' .. i] = 10 end local T = {} for i = 1, 100 do T[{[t] = tonumber}] = table.foreach end local U = {} for i = 1, 10000 do U[{[T] = table.foreach}] = table.foreach end table.foreach(U, table.foreach) return 1".into(),
        "local t = {1, 1, 1, 1} for i = 1, 33 do t['x' .. i] = 1 end local k = 5 while k <= 2^28 do t[k] = 1 k = k * 2 end table.remove(t, 1) return 1".into(),
        "local t = {1, 1, 1, 1} for i = 1, 33 do t['x' .. i] = 1 end local k = 5 while k <= 2^28 do t[k] = 1 k = k * 2 end table.insert(t, 1, 1) return 1".into(),
        "local big = {} for i = 1, 2^19 do big[i] = 1 end for i = 1, 2^19 - 1 do big[i] = nil end local a = {} for i = 1, 50000 do a[i] = big end return #cmsgpack.pack(a)".into(),
        // Each step is slow: it puts the whole table elsewhere, walks along a chain, or looks for a text in one.
        "local t = {1, 1, 1, 1} local n, k = 0, 5 while k <= 2^20 do k = k * 2 n = n + 1 end for i = 1, 2^17 - 1 - n do t['x' .. i] = 1 end k = 5 while k <= 2^20 do t[k] = 1 k = k * 2 end table.remove(t, #t - 600000) return 1".into(),
        "local t = {1, 1, 1, 1} local n, k = 0, 5 while k <= 2^20 do k = k * 2 n = n + 1 end for i = 1, 2^17 - 1 - n do t['x' .. i] = 1 end k = 5 while k <= 2^20 do t[k] = 1 k = k * 2 end table.insert(t, #t - 600000, 1) return 1".into(),
        crowd("2^19", "40000", "return table.maxn(t)"),
        crowd("2^19", "40000", "local ok, text = pcall(cjson.encode, t) return #text"),
        crowd("2^19", "40000", "return #cmsgpack.pack(t)"),
        crowd("2^19", "40000", "return {map = t}"),
        crowd("2^19", "40000", "return {set = t}"),
        crowd("2^19", "40000", "for k, v in pairs(t) do rawset(string, k, v) end return 1"),
        crowd("2^19", "2^18 + 1", "return 1"),
        "return #(('a'):rep(1e6):gsub('.+', ('%0'):rep(200000)))".into(),
        "return #(('a'):rep(1e6):gsub('(.+)', ('%1'):rep(200000)))".into(),
        "local s = ('a'):rep(1e7) return #(('a'):rep(1e6):gsub('.', {a = s}))".into(),
        // A resume that raises: whoever watches goes on to know who executes.
        "local co = coroutine.create(function() return unpack({}, 1, 7990) end) pcall(coroutine.resume, co) pcall(function() local x, f = coroutine.resume(co) end) local s = string.rep(' ', 2e7) .. '1' local n = 0 while true do n = s + n end".into(),
    ] {
        let began = cpu_ms();
        let reply = eval(&mut client, &script);
        let took = cpu_ms() - began;
        assert!(took < crate::scripts::budget::PATIENCE_MS * 12 / 10, "{script}: {took} ms, {reply}");
        assert_eq!(eval(&mut client, "return 1"), ":1\r\n");
    }
}

/// The order that `sort` finds is what Lua's own comparison finds, whatever bytes are in a text.
#[test]
fn texts_are_sorted_as_lua_compares_them() {
    let mut client = bounded(40_000_000, 64);
    let said = eval(
        &mut client,
        "local pieces, t = {'', '\\0', 'a', '\\255', 'a\\0', 'b', '\\0\\0', 'A', 'ab'}, {} \
         for _, one in ipairs(pieces) do for _, other in ipairs(pieces) do t[#t + 1] = one .. other end end \
         table.sort(t) for i = 2, #t do if t[i] < t[i - 1] then return 'wrong' end end return #t",
    );
    assert_eq!(said, ":81\r\n");
    let numbers = eval(&mut client, "local t = {3, 1, 2.5, -1} table.sort(t) return cjson.encode(t)");
    assert!(numbers.contains("[-1,1,2.5,3]"), "{numbers}");
    let mixed = eval(&mut client, "local ok, why = pcall(table.sort, {1, 'a'}) return why");
    assert!(mixed.contains("attempt to compare"), "{mixed}");
    let by_table = eval(
        &mut client,
        "local m = {__lt = function(a, b) return a.n < b.n end} local t = {} for i = 1, 5 do t[i] = setmetatable({n = -i}, m) end table.sort(t) return t[1].n",
    );
    assert_eq!(by_table, ":-5\r\n");
}

#[test]
fn foreach_does_what_it_did() {
    let mut client = bounded(40_000_000, 64);
    for (script, said) in [
        (
            "return table.foreach({1, 2, x = 3}, function(k, v) if v == 3 then return k end end)",
            "$1\r\nx\r\n",
        ),
        ("return table.foreachi({5, 6, 7}, function(i, v) if v == 6 then return i end end)", ":2\r\n"),
        ("return table.foreach({}, error)", "$-1\r\n"),
        (
            "return select(2, pcall(table.foreach, nil, type))",
            "bad argument #1 to 'foreach' (table expected, got nil)",
        ),
        (
            "local ok, why = pcall(table.foreachi, {}, 1) return why",
            "bad argument #2 to 'foreachi' (function expected, got number)",
        ),
    ] {
        let reply = eval(&mut client, script);
        assert!(reply.contains(said), "{script}: {reply}");
    }
}

/// Texts that kept the compiler busy for up to a minute, by every door.
#[test]
fn what_takes_long_to_compile_is_refused() {
    let clock = Clocks { wall: wall_ms, cpu: cpu_ms };
    crate::scripts::budget::limit(Limits {
        instructions: 10_000_000,
        clock: Some(clock),
        ..Limits::default()
    });
    let mut client = Node::new().client();
    let texts = [
        format!("local x return {}x", "x and ".repeat(170_000)),
        format!("local x if x then {} end", "elseif x then ".repeat(70_000)),
        format!("local x while x do {} end", "if x then break end ".repeat(50_000)),
        format!(
            "{}{}{}",
            "local a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y = 1 function z() ".repeat(180),
            "z=z ".repeat(150_000),
            "end ".repeat(180)
        ),
    ];
    for text in &texts {
        for words in [
            &["EVAL", text, "0"][..],
            &["SCRIPT", "LOAD", text],
            &["EVAL_RO", text, "0"],
            &["EVAL", "return select(2, loadstring(ARGV[1]))", "0", text],
            &[
                "EVAL",
                "local t = ARGV[1] return select(2, load(function() local s = t t = nil return s end))",
                "0",
                text,
            ],
        ] {
            let reply = ask(&mut client, words);
            assert!(reply.contains("too complex"), "{} {}", words[0], &reply[..reply.len().min(200)]);
        }
        let library = format!("#!lua name=x\n{text}");
        let reply = ask(&mut client, &["FUNCTION", "LOAD", &library]);
        assert!(reply.contains("too complex"), "{}", &reply[..reply.len().min(200)]);
    }
}

#[test]
fn nothing_is_collected_while_a_text_is_compiled() {
    let mut client = bounded(30_000_000, 32);
    let script = "local garbage = {} for i = 1, 3000 do garbage[i % 7] = string.rep('g', 5000) .. i
        local f, e = loadstring('local a = ' .. string.rep('{', i % 90) .. string.rep('\\'x\\',', 50), '=' .. string.rep('n', 40) .. i)
        if not e or not e:find('nnn' .. i .. ':1:', 1, true) then return e or 'no error' end end return 1";
    assert_eq!(eval(&mut client, script), ":1\r\n");
}

/// Once: `load` took a piece of any length before it looked.
#[test]
fn texts_for_load_are_as_long_as_scripts() {
    let mut client = bounded(30_000_000, 64);
    for script in [
        "return select(2, loadstring('--[' .. string.rep('=', 2^20) .. '['))",
        "return select(2, loadstring(string.rep(' ', 2^20 + 1)))",
        "local n = 0 return select(2, load(function() n = n + 1 return n < 40 and string.rep(' ', 2^15) or nil end))",
    ] {
        let reply = eval(&mut client, script);
        assert!(reply.contains("the text is too long"), "{script}: {reply}");
    }
    assert_eq!(eval(&mut client, "return loadstring(string.rep(' ', 2^20 - 8) .. 'return 5')()"), ":5\r\n");
}

#[test]
fn the_collector_is_out_of_reach() {
    let mut client = bounded(1_000_000, 16);
    assert_eq!(
        eval(&mut client, "return {collectgarbage('step', 1), collectgarbage('stop'), gcinfo()}"),
        "*4\r\n:0\r\n:0\r\n:0\r\n:0\r\n"
    );
    assert!(eval(&mut client, "return newproxy(true)").contains("nonexistent global variable 'newproxy'"));
    let reply = eval(
        &mut client,
        "local n = 0 for i = 1, 2000 do setmetatable({}, {__gc = function() n = n + 1 end}) local s = string.rep('x', 20000) end return n",
    );
    assert_eq!(reply, ":0\r\n");
}

#[test]
fn odd_digits_of_tohex() {
    let mut client = bounded(1_000_000, 16);
    for (digits, text) in [
        ("-2^31", "0000ABCD"),
        ("2^31 - 1", "0000abcd"),
        ("2^31", "0000ABCD"),
        ("0", ""),
        ("-3", "BCD"),
        ("0/0", ""),
        ("9", "0000abcd"),
    ] {
        assert_eq!(
            eval(&mut client, &format!("return bit.tohex(0xabcd, {digits})")),
            format!("${}\r\n{text}\r\n", text.len()),
            "{digits}"
        );
    }
}

#[test]
fn many_parameters_and_few_arguments() {
    let mut client = bounded(3_000_000, 16);
    let parameters = (0..199).map(|n| format!("p{n}, ")).collect::<String>();
    let script = format!(
        "local function f({parameters}...) return select('#', ...) end local function g(n) if n == 0 then return f() end return (g(n - 1)) + f(1) end return g(3000)"
    );
    assert_eq!(eval(&mut client, &script), ":0\r\n");
    let script = format!(
        "local function f({parameters}...) return f(...) end for i = 1, 200 do coroutine.wrap(function() local ok = pcall(f, 1) end) end return f and 1"
    );
    assert_eq!(eval(&mut client, &script), ":1\r\n");
}

/// Once: keys and arguments became Lua's strings uncounted; a crowd of them that meets in one chain of Lua's table takes
/// minutes.
#[test]
fn arguments_that_meet_in_one_chain_are_bounded_by_time() {
    let slower = Clocks { wall: || slow() * 1000, cpu: || slow() * 1000 };
    let mut client = bounded(0, 16);
    assert_eq!(eval(&mut client, "return 1"), ":1\r\n", "it is compiled");
    crate::scripts::budget::limit(Limits { instructions: 0, memory_bytes: 16 << 20, clock: Some(slower) });
    let words: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let words: Vec<&str> =
        ["EVAL", "return 1", "0"].into_iter().chain(words.iter().map(String::as_str)).collect();
    assert!(ask(&mut client, &words).contains("seconds of CPU time"));
}
