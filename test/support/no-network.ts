import { writeFileSync } from 'node:fs'

/**
 * A module for `node --import` that keeps a process from every machine but this one, and writes what the process asked for
 * into the file of NETWORK_ASKED.
 */
const source = `import { appendFileSync } from 'node:fs'
import { Socket } from 'node:net'
const own = new Set([undefined, 'localhost', '127.0.0.1', '::1'])
const { connect } = Socket.prototype
Socket.prototype.connect = function (...args) {
  const [first, second] = args.flat()
  const { host, path } = typeof first === 'object' ? first : { host: second }
  if (path || own.has(host)) return connect.apply(this, args)
  appendFileSync(process.env.NETWORK_ASKED, host + '\\n')
  process.nextTick(() => this.destroy(new Error('There is no network.')))
  return this
}
`

/** The environment of a process that reaches no other machine. `module` and `asked` are files to make. */
export function withoutNetwork(module: string, asked: string): Record<string, string> {
  writeFileSync(module, source)
  writeFileSync(asked, '')
  return {
    NODE_OPTIONS: `--import=${module}`,
    NETWORK_ASKED: asked,
    npm_config_offline: 'true',
    npm_config_update_notifier: 'false',
  }
}
