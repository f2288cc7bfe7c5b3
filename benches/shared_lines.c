/* A tool for valgrind: which thread reads and writes which cache line, from which instruction. shared_lines.py compiles and runs it.
 *
 * Nothing is counted until `vgdb --pid=PID lines on`; `lines to FILE` writes what was counted. Valgrind runs one thread at a time, so
 * that nothing here needs a lock; and each for 100,000 blocks, so that a line which two threads take turns at moves far less often than on a
 * machine. Hence accesses are what is counted here, and not only moves. */

#include "pub_tool_basics.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_gdbserver.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "valgrind.h"

/* What one instruction of one thread did to one line. */
typedef struct {
   ULong line;
   ULong pc;
   UInt thread; /* from 1; 0: no entry */
   UInt loads;
   UInt stores;
   UInt moves; /* accesses that would have taken the line from another core, or a copy of it, were each thread a core with an endless cache */
} Access;

/* Who has a line. */
typedef struct {
   ULong line;    /* plus 1; 0: no entry */
   ULong holders; /* a bit for each thread */
} Held;

#define ACCESSES (1u << 24)
#define LINES (1u << 23)
#define MOST(size) ((size) / 8 * 7)

static Access *accesses;
static Held *lines;
static UInt access_count, line_count;
static Bool counting;

static ULong mixed(ULong key) { return (key * 0x9E3779B97F4A7C15ull) >> 24; }

static Access *access_of(ULong line, ULong pc, UInt thread)
{
   ULong at = mixed(line * 31 + pc * 7 + thread) & (ACCESSES - 1);
   while (accesses[at].thread && (accesses[at].line != line || accesses[at].pc != pc || accesses[at].thread != thread))
      at = (at + 1) & (ACCESSES - 1);
   if (!accesses[at].thread) {
      if (++access_count > MOST(ACCESSES)) VG_(tool_panic)("more accesses than there is room for: count for a shorter time");
      accesses[at] = (Access){ .line = line, .pc = pc, .thread = thread };
   }
   return &accesses[at];
}

static Held *held(ULong line)
{
   ULong at = mixed(line) & (LINES - 1);
   while (lines[at].line && lines[at].line != line + 1) at = (at + 1) & (LINES - 1);
   if (!lines[at].line) {
      if (++line_count > MOST(LINES)) VG_(tool_panic)("more lines than there is room for: count for a shorter time");
      lines[at].line = line + 1;
   }
   return &lines[at];
}

static void count(Addr pc, Addr address, UWord size, Bool stores)
{
   UInt thread = VG_(get_running_tid)();
   ULong me = 1ull << (thread & 63);
   for (ULong line = address >> 6; line <= (address + size - 1) >> 6; line++) {
      Access *access = access_of(line, pc, thread);
      Held *owner = held(line);
      Bool others = stores ? (owner->holders & ~me) != 0 : owner->holders != 0 && !(owner->holders & me);
      access->moves += others;
      if (stores) { access->stores++; owner->holders = me; }
      else { access->loads++; owner->holders |= me; }
   }
}

static VG_REGPARM(3) void load(Addr pc, Addr address, UWord size) { if (counting) count(pc, address, size, False); }
static VG_REGPARM(3) void store(Addr pc, Addr address, UWord size) { if (counting) count(pc, address, size, True); }

static void call(IRSB *out, const HChar *name, void *helper, Addr pc, IRExpr *address, Int size, IRExpr *guard)
{
   IRExpr **words = mkIRExprVec_3(mkIRExpr_HWord(pc), address, mkIRExpr_HWord(size));
   IRDirty *dirty = unsafeIRDirty_0_N(3, name, VG_(fnptr_to_fnentry)(helper), words);
   if (guard) dirty->guard = guard;
   addStmtToIRSB(out, IRStmt_Dirty(dirty));
}

#define LOAD(address, size, guard) call(out, "load", &load, pc, address, size, guard)
#define STORE(address, size, guard) call(out, "store", &store, pc, address, size, guard)

static Int size_of(IRTypeEnv *types, IRExpr *expr) { return sizeofIRType(typeOfIRExpr(types, expr)); }

static IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout, const VexGuestExtents *extents,
                        const VexArchInfo *arch, IRType guest, IRType host)
{
   IRSB *out = deepCopyIRSBExceptStmts(in);
   Addr pc = 0;
   for (Int i = 0; i < in->stmts_used; i++) {
      IRStmt *st = in->stmts[i];
      if (!st) continue;
      switch (st->tag) {
      case Ist_IMark: pc = st->Ist.IMark.addr; break;
      case Ist_WrTmp:
         if (st->Ist.WrTmp.data->tag == Iex_Load)
            LOAD(st->Ist.WrTmp.data->Iex.Load.addr, sizeofIRType(st->Ist.WrTmp.data->Iex.Load.ty), NULL);
         break;
      case Ist_Store: STORE(st->Ist.Store.addr, size_of(in->tyenv, st->Ist.Store.data), NULL); break;
      case Ist_StoreG:
         STORE(st->Ist.StoreG.details->addr, size_of(in->tyenv, st->Ist.StoreG.details->data), st->Ist.StoreG.details->guard);
         break;
      case Ist_LoadG: {
         IRType type, wide;
         typeOfIRLoadGOp(st->Ist.LoadG.details->cvt, &wide, &type);
         LOAD(st->Ist.LoadG.details->addr, sizeofIRType(type), st->Ist.LoadG.details->guard);
         break;
      }
      case Ist_CAS: { /* takes the line whether it succeeds or not */
         IRCAS *cas = st->Ist.CAS.details;
         STORE(cas->addr, size_of(in->tyenv, cas->dataLo) * (cas->dataHi ? 2 : 1), NULL);
         break;
      }
      case Ist_Dirty: {
         IRDirty *d = st->Ist.Dirty.details;
         if (d->mFx == Ifx_Read || d->mFx == Ifx_Modify) LOAD(d->mAddr, d->mSize, d->guard);
         if (d->mFx == Ifx_Write || d->mFx == Ifx_Modify) STORE(d->mAddr, d->mSize, d->guard);
         break;
      }
      default: break;
      }
      addStmtToIRSB(out, st);
   }
   return out;
}

static void write_to(const HChar *path)
{
   Int file = VG_(fd_open)(path, VKI_O_CREAT | VKI_O_TRUNC | VKI_O_WRONLY, 0600);
   if (file < 0) { VG_(gdb_printf)("cannot write %s\n", path); return; }
   for (UInt at = 0; at < ACCESSES; at++)
      if (accesses[at].thread) VG_(write)(file, &accesses[at], sizeof(Access));
   VG_(close)(file);
   VG_(gdb_printf)("%u accesses to %u lines\n", access_count, line_count);
}

static Bool request(ThreadId thread, UWord *args, UWord *answer)
{
   if (args[0] != VG_USERREQ__GDB_MONITOR_COMMAND) return False;
   const HChar *words = (const HChar *)args[1];
   *answer = 1;
   if (VG_(strcmp)(words, "lines on") == 0) counting = True;
   else if (VG_(strcmp)(words, "lines off") == 0) counting = False;
   else if (VG_(strncmp)(words, "lines to ", 9) == 0) write_to(words + 9);
   else *answer = 0;
   return *answer;
}

static void after_options(void)
{
   accesses = VG_(am_shadow_alloc)(ACCESSES * sizeof(Access));
   lines = VG_(am_shadow_alloc)(LINES * sizeof(Held));
   tl_assert(accesses && lines);
}

static void at_end(Int code) {}

static void before_options(void)
{
   VG_(details_name)("Lines");
   VG_(details_description)("accesses to cache lines by thread and instruction");
   VG_(details_copyright_author)("Part of Highwater's benchmarks.");
   VG_(details_bug_reports_to)("Highwater");
   VG_(basic_tool_funcs)(after_options, instrument, at_end);
   VG_(needs_client_requests)(request);
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
