import { globSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { circles } from '../support/floors.ts'

const root = resolve(import.meta.dirname, '../..')
const sources = new Map(
  globSync('client/{*,call/*,core/**/*,later/*,react/*,wallet/*}.ts', { cwd: root }).map((path) => [
    path,
    readFileSync(join(root, path), 'utf8'),
  ]),
)

/** What a file of a room may import by value; types and what `import()` fetches later may come from any room. */
const allowed: Readonly<Record<string, RegExp>> = {
  core: /^client\/core\//,
  call: /^client\/(core|call)\//,
  later: /^(client\/(core|later)\/|eventsource-parser$)/,
  react: /^(client\/(core|react)\/|react$)/,
  wallet: /^(client\/(core\/(error|kept)\.ts|wallet\/)|@noble\/)/,
}
const roomOf = (path: string): string => path.split('/').slice(1, -1)[0] ?? ''

function valuesOf(path: string, source: string): string[] {
  const statics = source.matchAll(/^(?:import|export) (?!type )([^'";]*?)\s*from '([^']+)'/gm)
  return [...statics].flatMap(([, names = '', from = '']) => {
    const isTypes = /^\{(\s*type [\w$]+,?)+\s*\}$/.test(names)
    if (isTypes) return []
    return from.startsWith('.') ? join(dirname(path), from) : from
  })
}

function wrong(house: ReadonlyMap<string, string>): string[] {
  const values = new Map([...house].map(([path, source]) => [path, valuesOf(path, source)]))
  const imports = [...values].flatMap(([path, targets]) => {
    const rule = allowed[roomOf(path)]
    return targets
      .filter((target) => rule && !rule.test(target))
      .map((target) => `${path} imports ${target}`)
  })
  const typed = [...house]
    .filter(([path, source]) => roomOf(path) === 'core' && /from 'react'/.test(source))
    .map(([path]) => path)
    .filter((path) => path !== 'client/core/page.ts')
    .map((path) => `${path} names React: only core/page.ts does, and by its types`)
  return [...imports, ...typed, ...circles(values)]
}

const planted = (path: string, source: string) => wrong(new Map([...sources, [path, source]]))

describe('the rooms of the client', () => {
  it('stand: core knows no React, and nothing that is fetched later comes with the core', () => {
    expect(sources.size).toBeGreaterThan(35)
    expect(wrong(sources)).toEqual([])
  })

  it.each([
    ['client/core/x.ts', `import { useState } from 'react'`],
    ['client/core/x.ts', `import type { ReactNode } from 'react'`],
    ['client/core/x.ts', `import { LiveReply } from '../later/reply.ts'`],
    ['client/core/x.ts', `import { useChat } from '../react/use-chat.ts'`],
    ['client/core/x.ts', `import { LiveCall } from '../call/live-call.ts'`],
    ['client/react/x.ts', `import { type A, validated } from '../later/schema.ts'`],
    ['client/later/x.ts', `import { useChat } from '../react/use-chat.ts'`],
    ['client/wallet/x.ts', `import { Chat } from '../core/chat/chat.ts'`],
    ['client/core/x.ts', `import { ed25519 } from '@noble/curves/ed25519.js'`],
  ])('%s with "%s" is found', (path, source) => {
    expect(planted(path, source)).toContainEqual(expect.stringContaining(path))
  })

  it.each([
    ['client/core/x.ts', `import type { LiveReply } from '../later/reply.ts'`],
    ['client/core/x.ts', `const { LiveReply } = await import('../later/reply.ts')`],
    ['client/react/x.ts', `import { type A, Chat } from '../core/chat/chat.ts'`],
  ])('%s with "%s" is fine', (path, source) => expect(planted(path, source)).toEqual([]))

  it('files that import each other’s values in a circle are found', () => {
    const house = new Map([
      ['client/core/a.ts', `import { b } from './b.ts'`],
      ['client/core/b.ts', `import { a } from './a.ts'`],
    ])
    expect(wrong(house)).toEqual(['client/core/a.ts -> client/core/b.ts -> client/core/a.ts'])
  })
})
