import { globSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { Channel, Pregel } from '@langchain/langgraph/pregel'
import { EphemeralValue, LastValue } from '@langchain/langgraph/channels'
import { Runnable, type RunnableConfig } from '@langchain/core/runnables'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { writeChunk } from '../core/runtime/http/answer/chunk.ts'
import { responseOf } from '../core/runtime/http/answer/response-of.ts'
import { readArchive } from '../core/runtime/auth/token/archive.ts'
import { createWallet } from '../core/testing/wallet.ts'

const path = 'docs/decisions/insides.md'
/** The page with every point on one line. */
const page = readFileSync(path, 'utf8').replace(/\n {2,}/g, ' ')
/** Sections of a package, `## name version`, with the debts of each, `### what is used`. */
const packages = [...page.matchAll(/^## (\S+) (\d\S*)\n(.*?)(?=^## |(?![^]))/gms)].map(
  ([, name = '', version = '', text = '']) => ({ name, version, text }),
)
const debts = packages.flatMap(({ text }) =>
  text
    .split(/^### /m)
    .slice(1)
    .map((part) => ({ title: part.slice(0, part.indexOf('\n')), part })),
)

describe('the page about insides of others', () => {
  test('names the versions that are installed, so that an upgrade is read here first', () => {
    const { dependencies, devDependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
    const wanted: Record<string, string> = { ...devDependencies, ...dependencies }
    expect(packages.length).toBeGreaterThan(5)
    for (const { name, version } of packages)
      expect(version, `${path}: do what the section of ${name} says on an upgrade`).toBe(
        wanted[name],
      )
  })

  test.each(debts)('$title: says where, what, why, what guards it and what to do', ({ part }) => {
    for (const label of ['Where', 'What', 'Why', 'Guard', 'On an upgrade'])
      expect(part).toMatch(new RegExp(`^- ${label}: `, 'm'))
    for (const [, name = '', file = ''] of part.matchAll(/^- Where: `(\w+)` in `(\S+)`$/gm))
      expect(readFileSync(file, 'utf8'), `${file} has no ${name}`).toMatch(
        new RegExp(`\\b(?:function\\*?|class|const) ${name}\\b`),
      )
  })

  test.each(debts)('$title: each guard is a test of that name', ({ part }) => {
    const guards = [...part.matchAll(/^- Guard: (.*)$/gm)]
    expect(guards.length).toBeGreaterThan(0)
    for (const [, guard = ''] of guards) {
      const [, file = '', title = ''] = /^`(\S+)`, “(.+)”$/.exec(guard) ?? []
      expect(file, guard).not.toBe('')
      const titles = readFileSync(file, 'utf8').matchAll(/(?:\(|^\s+)'([^'\n]+)',/gm)
      expect(
        [...titles].map(([, found]) => found),
        file,
      ).toContain(title)
    }
  })

  test('has every underscore name of somebody else’s that the code uses', () => {
    const sources = globSync('{core,plugins,client}/**/*.{ts,tsx}').filter(
      (file) => !/\.test\.tsx?$|node_modules|\/fixtures\//.test(file),
    )
    expect(sources.length).toBeGreaterThan(100)
    const used = sources.flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(/(?:(?<!\.)\.|\{ )(_{1,2}[a-z]\w+)/gi)]
        .map(([, name = '']) => name)
        .filter((name) => name !== '__proto__')
        .map((name) => ({ file, name })),
    )
    expect(used.length).toBeGreaterThan(5)
    expect(used.filter(({ name }) => !page.includes(name))).toEqual([])
  })
})

/** A server on a free port, gone with its test. */
async function serving(
  answer: (req: IncomingMessage, res: ServerResponse) => void,
): Promise<{ server: Server; port: number; url: string }> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  return { server, port, url: `http://127.0.0.1:${port}/` }
}

describe('of Node', () => {
  test('a socket names the response that is under way on it, and none before and after', async () => {
    const told: unknown[] = []
    const { server, url } = await serving((req, res) => {
      const { socket } = req
      told.push(responseOf(socket) === res, responseOf(socket)?.headersSent)
      res.write('a')
      told.push(responseOf(socket)?.headersSent)
      res.end('b')
      res.once('close', () => told.push(responseOf(socket)))
    })
    server.once('connection', (socket) => told.push(responseOf(socket)))
    expect(await (await fetch(url)).text()).toBe('ab')
    await expect.poll(() => told).toEqual([undefined, true, false, true, undefined])
  })

  test('chunks that go past res.write reach the reader whole, and the end of the answer with them', async () => {
    const pieces = ['plain', 'ü and 水', '', 'x'.repeat(70_000), '\r\n0\r\n\r\n'].filter(Boolean)
    const past: string[] = []
    const { port } = await serving((_, res) => {
      writeChunk(res, 'first') // brings the headers
      const { socket } = res
      const { write } = socket!
      socket!.write = (...args: unknown[]) => {
        past.push(String(args[0]))
        return Reflect.apply(write, socket, args)
      }
      for (const piece of pieces) writeChunk(res, piece)
      expect(past).toHaveLength(pieces.length)
      res.end()
    })
    const raw = await new Promise<string>((resolve) => {
      let received = ''
      const socket = connect(port, '127.0.0.1')
      socket.setEncoding('utf8')
      socket.on('data', (text) => (received += text))
      socket.on('end', () => resolve(received))
      socket.end('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    })
    const [, body] = /\r\n\r\n(.*)$/s.exec(raw) ?? []
    const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
    expect(body).toBe(`${['first', ...pieces].map(chunk).join('')}0\r\n\r\n`)
  })
})

test('a schema of zod says its kind and what it wraps', () => {
  const kinds = (schema: z.core.$ZodType): unknown => {
    const def = (schema as z.core.$ZodTypes)._zod.def as {
      type: string
      innerType?: z.core.$ZodType
      in?: z.core.$ZodType
      out?: z.core.$ZodType
    }
    const within = def.innerType ?? def.in
    return within ? [def.type, kinds(within)] : def.type
  }
  expect(kinds(z.string().default('a').optional())).toEqual(['optional', ['default', 'string']])
  expect(kinds(z.array(z.string()).transform(String))).toEqual(['pipe', 'array'])
  const { def } = z.preprocess(String, z.number())._zod
  expect([def.in._zod.def.type, def.out._zod.def.type]).toEqual(['transform', 'number'])
  expect(z.lazy(() => z.string())._zod.def.getter()._zod.def.type).toBe('string')
})

test('LangGraph runs the steps of a graph by _streamIterator and takes a node’s writes by __pregel_send', async () => {
  class Node extends Runnable<Record<string, unknown>, void> {
    override lc_namespace = ['insides']
    async invoke(input: Record<string, unknown>, config: RunnableConfig): Promise<void> {
      config.configurable?.__pregel_send([['kept', `${input.start}!`]])
    }
  }
  const pregel = new Pregel({
    nodes: { only: Channel.subscribeTo(['start']).pipe(new Node()) },
    channels: { start: new EphemeralValue(), kept: new LastValue() },
    inputChannels: ['start'],
    outputChannels: ['kept'],
    streamMode: 'values',
  })
  const values: unknown[] = []
  const steps = pregel._streamIterator({ start: 'go' }, { streamMode: 'values' })
  for await (const step of steps) values.push(step)
  expect(values.at(-1)).toEqual(expect.objectContaining({ kept: 'go!' }))
})

test('ucanto keeps principals as bytes, and writes a proof before what it proves', async () => {
  const [user, session] = [await createWallet(), await createWallet()]
  const proof = await user.delegate({ audience: session.did })
  const token = await session.invoke({ audience: user.did, proofs: [proof] })
  expect(token.delegation.data.model.iss).toBeInstanceOf(Uint8Array)
  expect(token.delegation.data.model.aud).toBeInstanceOf(Uint8Array)
  const order = readArchive(Buffer.from(token.text, 'base64')).map(({ cid }) => String(cid))
  expect(order).toEqual([proof, token].map(({ delegation }) => String(delegation.cid)))
})
