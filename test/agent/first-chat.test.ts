import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { expect, it } from 'vitest'

/** Serves, and prints what it loads. It asks for its own health each time that another piece of the engine was loaded. */
const program = `
  import { registerHooks } from 'node:module'
  let url
  registerHooks({
    load(address, context, next) {
      const own = /agent\\/state\\/graph\\.ts|models-demo\\/demo-model\\.ts/
      if (url && (own.test(address) || /dist\\/(messages|output_parsers)\\/index\\.js/.test(address))) {
        console.log('loads ' + address)
        setImmediate(() => fetch(url + '/health').then(({ status }) => console.log('health ' + status)))
      }
      return next(address, context)
    },
  })
  url = (await (await import('./server.ts')).default.listen()).url
  console.log('listens')
`

it('a server in production loads what a turn needs before anybody chats, in pieces, and answers between them', async () => {
  const server = spawn(
    process.execPath,
    ['--conditions=oracle-runtime-source', '--input-type=module', '-e', program],
    {
      env: {
        PATH: process.env.PATH,
        NODE_ENV: 'production',
        HOST: '127.0.0.1',
        PORT: '0',
        DATA_DIR: ':memory:',
        ORACLE_MNEMONIC: 'an oracle that only exists for this test',
        OPERATOR_TOKEN: 'operator-token-of-a-test-that-is-long-enough',
        MODEL: 'demo',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const seen: string[] = []
  try {
    for await (const line of createInterface({ input: server.stdout })) {
      const loads = /^loads .*\/(graph|messages|output_parsers|demo-model)(\/index)?\.[tj]s$/.exec(
        line,
      )
      if (loads) seen.push(loads[1] ?? '')
      else if (line === 'listens' || line.startsWith('health ')) seen.push(line)
      if (seen.at(-1) === 'health 200' && seen.includes('demo-model')) break
    }
  } finally {
    server.kill('SIGKILL')
    if (server.exitCode === null && server.signalCode === null) await once(server, 'exit')
  }
  expect(seen.filter((what) => !what.startsWith('health'))).toEqual([
    'listens',
    'messages',
    'output_parsers',
    'graph',
    'demo-model',
  ])
  // Between two pieces the server has answered.
  const [first, last] = [seen.indexOf('messages'), seen.indexOf('graph')]
  expect(seen.slice(first, last)).toContain('health 200')
}, 60_000)
