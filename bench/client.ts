import { addedBy, coreBudget, noticesBudget, sizeOf } from './client/size.ts'
import { longBench, longBudget } from './client/long.ts'
import { streamBench, streamBudget } from './client/stream.ts'

// Measures what the React library costs: its download size, and main-thread time while a reply streams.
const sizes = await Promise.all(
  ['index', 'live-agent', 'notices', 'payments', 'wallet'].map(sizeOf),
)
console.table(Object.fromEntries(sizes.map(({ entry, ...size }) => [entry, size])))
const notices = await addedBy('notices')
console.log(`notices add ${notices} bytes of gzip to the core, and may add ${noticesBudget}`)
console.log(`the core may have ${coreBudget} bytes of gzip; "later" is fetched when it is needed\n`)

const { library, baseline, timeRatio } = await streamBench()
console.table({ 'oracle-runtime-client': library, 'plain 50 ms flush': baseline })
console.log(
  `main-thread time ${timeRatio.toFixed(2)} (at most ${streamBudget.timeRatio}), commits at most ${streamBudget.commits}`,
)

const long = await longBench()
console.table(long)
console.log(
  `500 messages of 2 KB: open in ${longBudget.openMs} ms, a key in ${longBudget.keystrokeMs} ms (p95), shift ${longBudget.shift}`,
)
const newest = long['newest 50']
if (
  sizes[0]!.gzip > coreBudget ||
  notices > noticesBudget ||
  timeRatio > streamBudget.timeRatio ||
  library.commits > streamBudget.commits ||
  !newest ||
  newest.openMs > longBudget.openMs ||
  newest.keystrokeMs > longBudget.keystrokeMs ||
  newest.shift > longBudget.shift
)
  process.exitCode = 1
