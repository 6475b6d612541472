import { importsOf, join } from './architecture.ts'

/**
 * The test files that import `core/runtime` or `core/manifest`, each with the reason. Every other test file shows what it
 * shows by the public entries: `#core`, `core/plugin.ts`, `#core/testing` and the clients. Files of test/support may import both.
 */
export const insideTests: Readonly<Record<string, string>> = {
  'test/store/bus.test.ts':
    'What a process hears of one channel, by which way and how often, is hidden by everything that looks into the database, too.',
  'test/turns/failover.test.ts':
    'Its turns write into a world outside that counts, and two databases take each other’s place below them.',
  'test/turns/made-at-once.test.ts':
    'How many statements make the sessions of one moment is counted at the client of the database.',
  'test/turns/fleet.test.ts':
    'Statements and messages are counted by the word: an engine that speaks when the test tells it to.',
  'test/agent/bounded-work.test.ts':
    'It measures the processor time of single functions, which a turn around them would hide.',
  'test/agent/checkpointer.test.ts':
    'The checkpointer is an interface of LangGraph, and LangGraph’s own validation suite calls it.',
  'test/agent/graph.test.ts':
    'It runs single passages of the graph, dies between them and decides which checkpoint is the head.',
  'test/agent/history.test.ts':
    'Fitting a conversation into a window is arithmetic, and its edges are cases of a table.',
  'test/agent/large-results.test.ts':
    'A takeover and the purge of runs that ended days ago need the run store without a server.',
  'test/agent/partial-json.test.ts':
    'A parser of JSON that is cut off is called at every length of its input.',
  'test/audit/audit.test.ts':
    'Lines that are days old and a database that fails between two lines need the audit table without a server.',
  'test/boot/import-in-pieces.test.ts':
    'Files that import each other in every way are written for it, and whether its token can be read nobody else sees.',
  'test/boot/long-lines.test.ts':
    'The bound of a line is arithmetic, and its edges are lines that no app writes at will.',
  'test/auth/proved-later.test.ts':
    'That nothing is asked of the database before the statement of a turn, no answer of a server tells.',
  'test/turns/begins-at-once.test.ts':
    'It compares the rows that two ways of beginning a turn leave, and counts the statements that each sends.',
  'test/turns/written-at-once.test.ts':
    'How many rows a run writes at once, and how many runs in one moment, a fake engine says to the row.',
  'test/turns/doorway.test.ts':
    'How many begin in one turn of the event loop, no answer of a server tells.',
  'test/turns/abort.test.ts':
    'A stop that only the database knows is written there, in the instant before a run waits for a person.',
  'test/auth/capabilities.test.ts':
    'It compares hundreds of random chains of grants with the verdict of ucanto, one call each.',
  'test/auth/delegations.test.ts':
    'It turns the clock of the table of delegations, and asks that table about single CIDs.',
  'test/auth/grants.test.ts':
    'It turns the clock of the table of grants, and grants in a folder without a server as npm run grant does.',
  'test/auth/keys.test.ts': 'It lists and prints the keyring itself, which no route shows.',
  'test/auth/lane.test.ts':
    'The order of jobs and the turns of the event loop between jobs are not seen from outside.',
  'test/auth/replays.test.ts':
    'The memory of used tokens gets a size of two and a clock that the test turns.',
  'test/auth/resolver.test.ts':
    'Every case has a resolver of its own, with limits, a clock and a network that the test gives it.',
  'test/auth/signer.test.ts':
    'No route signs the bytes that a caller chooses, and the bytes are compared with ucanto’s.',
  'test/boot/closers.test.ts':
    'A plugin sees neither whether closing has begun nor the first fault of several closes.',
  'test/boot/kernel-routes.test.ts':
    'It compares the keys that the boot plan reads with the routes that an app serves.',
  'test/boot/never-told.test.ts':
    'Forty seconds are too long for a test: it has the count of a limit on a clock that it turns.',
  'test/channel/docs.test.ts':
    'It compares the page about events with the table of codes by which the kernel closes sockets.',
  'test/channel/load.test.ts':
    'It makes the buffer, the pings and the sweep of sockets smaller and faster than the environment allows.',
  'test/client/core/server-types.test.ts':
    'It compares the client’s types with those of the server, which the server does not export.',
  'test/http/client-network.test.ts':
    'A loopback socket has one address, and the function is called with those of other networks.',
  'test/http/idempotency-rows.test.ts':
    'It takes, loses and ages single rows of the table of keys, which one run does between two statements.',
  'test/http/json-break.test.ts':
    'A parser that finds where JSON breaks is called thousands of times with one character changed.',
  'test/http/open-files.test.ts':
    'How many files a process may open is the machine’s to say; the function is given other numbers.',
  'test/http/counts.test.ts':
    'The memory of addresses gets a size of two, and entries whose time was over before.',
  'test/store/additions.test.ts': 'It reads the list of the kernel’s migrations.',
  'test/insides.test.ts':
    'It guards the places where the kernel uses undocumented parts of libraries, function by function.',
  'test/turns/settling.test.ts':
    'Processes die at single moments of settling, and rows are made days old.',
  'test/jobs/attempts.test.ts':
    'It sets what a thrown error means for a job as cases of a table, and wears clocks and leases of its own.',
  'test/jobs/chaos.test.ts': 'It reads the rows of jobs beside servers that are killed.',
  'test/jobs/later.test.ts':
    'It compares the refusals with the numbers that bound a job, so that the two cannot part.',
  'test/jobs/schedules.test.ts':
    'It plans schedules by a clock that it turns, which no app lets a caller do.',
  'test/model/adapters-contract.test.ts':
    'The contract asks a model, and an app keeps to itself what it makes of a chat model.',
  'test/model/aside.test.ts':
    'It asks for other kinds of calls than those of plugins, and reads what each call tells of itself.',
  'test/model/demo.test.ts':
    'It puts the deltas of the demonstration model together as the runtime does, without an app around it.',
  'test/model/langchain.test.ts':
    'What reaches a chat model as parts is read off the request, which an app would hide behind its own.',
  'test/model/langchain-limits.test.ts':
    'It makes the silence and the length that a model is allowed smaller than any app does.',
  'test/model/openai-limits.test.ts':
    'It sets attempts, time limits and the size of an answer, which no variable sets.',
  'test/model/window.test.ts':
    'The sentences of providers and the arithmetic of ratios are cases of tables, one call each.',
  'test/model/usage.test.ts':
    'It adds and prices counts as cases of a table, far beyond what a turn could cost.',
  'test/notices/made.test.ts':
    'It makes notices in transactions that wait for each other or are undone, and turns the clock of their retention.',
  'test/notices/turns.test.ts':
    'A run of a plugin that fails, waits or changes hands needs an engine that does so when it is told.',
  'test/store/data-dir.test.ts':
    'It writes, locks and releases a data directory step by step, which an app does all at once.',
  'test/store/fewer-pages.test.ts':
    'It leaves a database as the version before did, and asks it for the plans of statements, of which no app tells.',
  'test/store/listening.test.ts':
    'How often a server tests whether it hears itself is no setting of an app, and a minute is too long for a test.',
  'test/store/migrations.test.ts':
    'It migrates one database from several stores at once and again and again, without the kernel’s own tables.',
  'test/store/pooler.test.ts':
    'Time limits of statements and the number of connections show in the sessions of the database only, which no app hands out.',
  'test/store/store.test.ts':
    'It shows the store on its own: statements, transactions, pools and channels of each database.',
  'test/store/stuck.test.ts':
    'How long a transaction may be idle is no setting, and twenty seconds are too long for a test.',
  'test/turns/fencing.test.ts':
    'What becomes of an engine whose lease ends, and how often a run was attempted, no client sees.',
  'test/turns/request.test.ts':
    'It compares what the engine is handed and how a row is stored, also by older versions; no client sees either.',
  'test/turns/rooms.test.ts':
    'It plants rows of an older version, and runs the migration of the names of rooms on them.',
  'test/turns/waiting-turns.test.ts':
    'It turns back the time of turns that wait, and has runs in the table that an older version wrote.',
  'test/files/fetch.test.ts':
    'An edge in place of the network counts which addresses are connected to: a test has no public address.',
  'test/files/files.test.ts': 'Files that are days old need the table of files without a server.',
  'test/files/result-parts.test.ts':
    'The forms of parts on the chat wire, and the mark of a write that returned files, are cases of a table.',
  'test/webhooks/addresses.test.ts':
    'It gives the look-up of names answers of its own, which no name service of a test would give.',
}

/** What is wrong between the table and the test files: an import without a line, and a line without an import. */
export function insideFaults(
  tests: ReadonlyMap<string, string>,
  table: Readonly<Record<string, string>> = insideTests,
): string[] {
  const insides = [...tests].flatMap(([path, source]) => {
    const found = importsOf(source)
      .map(({ from }) => (from.startsWith('.') ? join(path, from) : from))
      .find((target) => /^core\/(runtime|manifest)\//.test(target))
    return found === undefined ? [] : [{ path, found }]
  })
  const importing = new Set(insides.map(({ path }) => path))
  return [
    ...insides
      .filter(({ path }) => !Object.hasOwn(table, path))
      .map(
        ({ path, found }) =>
          `${path} imports ${found}: show it by the public entries, or say why not in test/support/inside-tests.ts`,
      ),
    ...Object.keys(table)
      .filter((path) => !importing.has(path))
      .map(
        (path) => `test/support/inside-tests.ts: ${path} imports no inside of the core any more`,
      ),
  ]
}
