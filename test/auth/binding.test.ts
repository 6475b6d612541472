import { hash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createWallet } from '../../core/testing/wallet.ts'
import { oracle, requestOf, testAuth } from '../support/auth.ts'
import { bearer } from '../support/tokens.ts'

const audience = oracle.did
const user = await createWallet()
const body = Buffer.from('{"amount":1}')
const bh = hash('sha256', body, 'base64url')
const refusal = { code: 'UNAUTHORIZED', status: 401 }

const bound = async (...facts: Record<string, unknown>[]) =>
  bearer((await user.invoke({ audience, facts })).text)
const request = { method: 'POST', path: '/registry', body }

describe('an invocation bound to a request', () => {
  test('passes with that request, once', async () => {
    const { auth, lines } = testAuth()
    const headers = await bound({ htm: 'POST', htu: '/registry', bh })
    expect((await auth.authenticate(requestOf(headers, request))).did).toBe(user.did)
    await expect(auth.authenticate(requestOf(headers, request))).rejects.toMatchObject(refusal)
    expect(lines.join()).toContain('used before')
  })

  test('passes once even when it arrives many times at the same moment', async () => {
    const { auth } = testAuth()
    const headers = await bound({ htm: 'POST', htu: '/registry' })
    const all = await Promise.allSettled(
      Array.from({ length: 20 }, () => auth.authenticate(requestOf(headers, request))),
    )
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  test.each([
    ['another path', { ...request, path: '/registry/other' }],
    ['a longer path', { ...request, path: '/registry/' }],
    ['another spelling of the path', { ...request, path: '/%72egistry' }],
    ['another method', { ...request, method: 'PUT' }],
    ['another body', { ...request, body: Buffer.from('{"amount":2}') }],
    ['no body', { ...request, body: undefined }],
  ])('is refused with %s, and is not used up by it', async (_, other) => {
    const { auth, lines } = testAuth()
    const headers = await bound({ htm: 'POST', htu: '/registry', bh })
    await expect(auth.authenticate(requestOf(headers, other))).rejects.toMatchObject(refusal)
    expect(lines.join()).toContain('bound to another request')
    expect((await auth.authenticate(requestOf(headers, request))).did).toBe(user.did)
  })

  test.each([
    ['without a path', [{ htm: 'POST' }]],
    ['without a method', [{ htu: '/registry' }]],
    ['by its body alone', [{ bh }]],
    [
      'twice',
      [
        { htm: 'POST', htu: '/registry' },
        { htm: 'GET', htu: '/' },
      ],
    ],
    ['to a list of paths', [{ htm: 'POST', htu: ['/registry'] }]],
  ])('%s is refused', async (_, facts) => {
    const { auth } = testAuth()
    const headers = await bound(...facts)
    await expect(auth.authenticate(requestOf(headers, request))).rejects.toMatchObject(refusal)
  })

  test('has its body read only when it names one, and only when its signature holds', async () => {
    const { auth } = testAuth()
    let reads = 0
    const lazy = {
      ...request,
      body: async () => {
        reads++
        return body
      },
    }
    await auth.authenticate(requestOf(await bound({ htm: 'POST', htu: '/registry' }), lazy))
    expect(reads).toBe(0)
    await auth.authenticate(requestOf(await bound({ htm: 'POST', htu: '/registry', bh }), lazy))
    expect(reads).toBe(1)
  })

  test('is not remembered as a token that may come again', async () => {
    const { auth } = testAuth()
    await auth.authenticate(requestOf(await bound({ htm: 'POST', htu: '/registry' }), request))
    expect(auth.stats().invocations).toBe(0)
  })
})
