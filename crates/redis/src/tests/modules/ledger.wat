;; Accounts in a table of users': HW.TABLE CREATE accounts u64. A balance is 8 bytes, little endian.
(module
  (import "highwater1" "argument" (func $argument (param i32 i32 i32) (result i32)))
  (import "highwater1" "table" (func $table (param i32 i32) (result i32)))
  (import "highwater1" "get" (func $get (param i32 i32 i32 i32 i32) (result i32)))
  (import "highwater1" "put" (func $put (param i32 i32 i32 i32 i32)))
  (import "highwater1" "fail" (func $fail (param i32 i32)))
  (import "highwater1" "reply_map" (func $reply_map (param i32)))
  (import "highwater1" "reply_bytes" (func $reply_bytes (param i32 i32)))
  (import "highwater1" "reply_integer" (func $reply_integer (param i64)))

  (memory (export "memory") 1)
  (data (i32.const 0) "accounts")
  (data (i32.const 16) "no such table")
  (data (i32.const 32) "no such account")
  (data (i32.const 48) "insufficient funds")
  (data (i32.const 80) "from_balance")
  (data (i32.const 96) "to_balance")

  ;; An argument as a number: its digits.
  (func $number (param $which i32) (result i64)
    (local $at i32) (local $end i32) (local $number i64)
    (local.set $at (i32.const 1024))
    (local.set $end (i32.add (i32.const 1024) (call $argument (local.get $which) (i32.const 1024) (i32.const 20))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_s (local.get $at) (local.get $end)))
        (local.set $number
          (i64.add
            (i64.mul (local.get $number) (i64.const 10))
            (i64.sub (i64.load8_u (local.get $at)) (i64.const 48))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (local.get $number))

  ;; A number as a key's column: 8 bytes, the greatest first.
  (func $key (param $to i32) (param $number i64)
    (local $at i32)
    (local.set $at (i32.const 7))
    (loop $next
      (i64.store8 (i32.add (local.get $to) (local.get $at)) (local.get $number))
      (local.set $number (i64.shr_u (local.get $number) (i64.const 8)))
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (br_if $next (i32.ge_s (local.get $at) (i32.const 0)))))

  (func $accounts (result i32)
    (local $table i32)
    (local.set $table (call $table (i32.const 0) (i32.const 8)))
    (if (i32.lt_s (local.get $table) (i32.const 0))
      (then (call $fail (i32.const 16) (i32.const 13))))
    (local.get $table))

  (func $balance (param $table i32) (param $key i32) (result i64)
    (if (i32.ne (call $get (local.get $table) (local.get $key) (i32.const 8) (i32.const 2048) (i32.const 8)) (i32.const 8))
      (then (call $fail (i32.const 32) (i32.const 15))))
    (i64.load (i32.const 2048)))

  (func $set (param $table i32) (param $key i32) (param $balance i64)
    (i64.store (i32.const 2048) (local.get $balance))
    (call $put (local.get $table) (local.get $key) (i32.const 8) (i32.const 2048) (i32.const 8)))

  ;; open account balance
  (func (export "procedure:open")
    (call $key (i32.const 512) (call $number (i32.const 0)))
    (call $set (call $accounts) (i32.const 512) (call $number (i32.const 1))))

  ;; transfer from to amount
  (func (export "procedure:transfer")
    (local $table i32) (local $amount i64) (local $from i64) (local $to i64)
    (local.set $table (call $accounts))
    (call $key (i32.const 512) (call $number (i32.const 0)))
    (call $key (i32.const 520) (call $number (i32.const 1)))
    (local.set $amount (call $number (i32.const 2)))
    (local.set $from (i64.sub (call $balance (local.get $table) (i32.const 512)) (local.get $amount)))
    (call $set (local.get $table) (i32.const 512) (local.get $from))
    ;; After the first write, to show that it is taken back.
    (if (i64.lt_s (local.get $from) (i64.const 0))
      (then (call $fail (i32.const 48) (i32.const 18))))
    (local.set $to (i64.add (call $balance (local.get $table) (i32.const 520)) (local.get $amount)))
    (call $set (local.get $table) (i32.const 520) (local.get $to))
    (call $reply_map (i32.const 2))
    (call $reply_bytes (i32.const 80) (i32.const 12))
    (call $reply_integer (local.get $from))
    (call $reply_bytes (i32.const 96) (i32.const 10))
    (call $reply_integer (local.get $to)))

  ;; balance account
  (func (export "procedure:balance")
    (call $key (i32.const 512) (call $number (i32.const 0)))
    (call $reply_integer (call $balance (call $accounts) (i32.const 512)))))
