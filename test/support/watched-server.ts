import { createApp, type Model } from '#core'
import { bundled } from '../../plugins/index.ts'
import { everyPlugin } from './every-plugin.ts'

/**
 * A whole server in a process of its own, that tells its parent how long its event loop was kept and how much memory
 * it has. Its model calls the first tool that a client brought along, with the arguments that the message holds, and
 * then says "Done."; with MODEL=demo it is the demonstration model.
 */
const calling: Model = {
  id: 'calling',
  async *stream({ messages, tools }) {
    const last = messages.at(-1)
    const given = last?.role === 'user' ? /^call (\S+) (.*)$/s.exec(last.content) : undefined
    const tool = given && tools.find(({ name }) => name === given[1])
    if (tool) yield { type: 'tool-call', index: 0, name: tool.name, args: given[2] ?? '' }
    else yield { type: 'text', text: 'Done.' }
  },
}

/**
 * A pause is what this thread itself computed between two turns of its event loop: on a busy machine a process that
 * waits for its turn on a processor keeps nobody waiting by itself.
 */
const resolution = 2
let pauseMs = 0
let lastWall = performance.now()
let lastCpu = cpuMs()
setInterval(() => {
  const [wall, cpu] = [performance.now(), cpuMs()]
  pauseMs = Math.max(pauseMs, Math.min(wall - lastWall, cpu - lastCpu) - resolution)
  lastWall = wall
  lastCpu = cpu
}, resolution).unref()

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

const app = await createApp({
  // PLUGINS=every: those, too, that an app has to name.
  plugins: process.env.PLUGINS === 'every' ? everyPlugin : bundled,
  ...(process.env.MODEL !== 'demo' && { model: calling }),
  log: (line) => void (/^\S+ (error|fatal) /.test(line) && process.stderr.write(line)),
})
const { url } = await app.listen({ port: 0, host: '127.0.0.1' })

/** Answers a question of the parent: the longest pause since the last question, and the memory in use. */
process.on('message', (question) => {
  // A turn later, so that a pause that ends with this message is in it.
  setTimeout(() => {
    if (question === 'collect') (globalThis as { gc?: () => void }).gc?.()
    process.send?.({ pauseMs, heap: process.memoryUsage().heapUsed })
    pauseMs = 0
  }, 5)
})
process.once('disconnect', () => process.exit(0))
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
process.send?.({ url })
