import { mkdtemp, rm } from 'node:fs/promises'
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { networkAddresses } from '../../cli/lan.ts'
import { halvesOf, hashed } from '../../client/wallet/plain.ts'
import { builtPage } from '../support/built-page.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { root, startServer } from '../support/process.ts'
import { describeWith } from '../support/services.ts'

it('signs and hashes without the browser’s help as Node does', () => {
  const { privateKey } = generateKeyPairSync('ed25519')
  const { d = '', x = '' } = privateKey.export({ format: 'jwk' })
  const [seed, payload] = [Buffer.from(d, 'base64url'), Buffer.from('Say it.')]
  const { publicKey, sign: signed } = halvesOf(seed)
  expect(Buffer.from(publicKey).toString('base64url')).toBe(x)
  expect(Buffer.from(signed(payload))).toEqual(sign(null, payload, privateKey))
  expect(Buffer.from(hashed(payload))).toEqual(createHash('sha256').update(payload).digest())
})

it('names the addresses of a network, and none of this machine alone', () => {
  const one = { netmask: '', mac: '', cidr: null, scopeid: 0 }
  const found = networkAddresses(80, {
    lo: [{ ...one, address: '127.0.0.1', family: 'IPv4', internal: true, scopeid: undefined }],
    eth: [
      { ...one, address: '192.0.2.7', family: 'IPv4', internal: false, scopeid: undefined },
      { ...one, address: 'fe80::1', family: 'IPv6', internal: false },
    ],
  })
  expect(found).toEqual(['http://192.0.2.7:80'])
})

await describeWith(
  'chromium',
  'the page by plain HTTP, at an address of the network',
  (program) => {
    it('chats, dials, copies and checks a draw, and its user is no operator', async () => {
      await builtPage()
      const folder = await mkdtemp(join(tmpdir(), 'lan-'))
      const server = startServer('start.js', { DATA_DIR: folder }, root, ['--lan'])
      const browser = await launch(program)
      onTestFinished(async () => {
        await browser.close()
        await server.end()
        await rm(folder, { recursive: true, force: true })
      })
      const { port } = new URL(await server.url)
      const [address = `http://0.0.0.0:${port}`] = networkAddresses(Number(port))
      await expect.poll(() => server.output()).toContain('Plain HTTP')
      if (networkAddresses(1).length > 0)
        expect(server.output()).toContain(`In this network: ${address}/playground`)
      const context = await browser.newContext()
      context.setDefaultTimeout(30_000)
      const page = await context.newPage()
      const complaints = complaintsOf(page)
      const granting = page.waitForRequest(`${address}/grants`)
      await page.goto(`${address}/playground/#/chat`)
      expect(await page.evaluate('isSecureContext')).toBe(false)
      await page.getByText('Plain HTTP').waitFor()
      await page.getByLabel('Message', { exact: true }).fill('What can you do?')
      await page.getByRole('button', { name: 'Send' }).click()
      await page.getByRole('article', { name: 'Oracle' }).first().waitFor()
      await page.getByRole('button', { name: 'Send' }).waitFor()
      const link = (name: string) =>
        page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name, exact: true })
      await link('Wire').click()
      await page.getByRole('button', { name: 'Copy all' }).click()
      await page.getByRole('button', { name: 'Copied' }).waitFor()
      await link('Phone').click()
      await page.getByRole('button', { name: /^Dial/ }).click()
      await page.getByRole('log', { name: 'Screen' }).getByText('Account').waitFor()
      // Grants are given to pages of this machine alone.
      await expect
        .poll(() => page.getByLabel('Debug record of the call').innerText())
        .toMatch(/FORBIDDEN|UNAUTHORIZED/)
      await link('Sampling').click()
      await page.getByRole('button', { name: 'Work it out and keep it' }).click()
      await page
        .getByRole('alert')
        .or(page.getByRole('region', { name: 'The design', exact: true }))
        .first()
        .waitFor()
      // The operator grants on this machine what the page was refused; then its audit of a draw is done in the browser.
      const granted = await fetch(`http://127.0.0.1:${port}/grants`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: (await granting).postData(),
      })
      expect(granted.ok).toBe(true)
      await page.getByRole('button', { name: 'Work it out and keep it' }).click()
      await page.getByRole('region', { name: 'The design', exact: true }).waitFor()
      await page.getByRole('button', { name: /Make up 5,000/ }).click()
      await page.getByRole('button', { name: 'Commit' }).click()
      await page.getByText('Frozen at').waitFor()
      await page.getByRole('button', { name: 'Throw dice' }).click()
      await page.getByRole('button', { name: 'Draw' }).click()
      await page.getByText(/all 5,000 tickets were drawn again/).waitFor()
      const digest = await page.evaluate(async () => {
        const name = Symbol.for('oracle-runtime.page')
        const { [name]: shared } = globalThis as unknown as Record<
          symbol,
          Record<string, { sha256(bytes: Uint8Array): Promise<Uint8Array> }>
        >
        const bytes = await shared?.['oracle-runtime-client/view']?.sha256(
          new TextEncoder().encode('a'),
        )
        return [...(bytes ?? [])].map((byte) => byte.toString(16).padStart(2, '0')).join('')
      })
      expect(digest).toBe(createHash('sha256').update('a').digest('hex'))
      // The browser itself notes what the server refuses to this user.
      expect(complaints.filter((one) => !/40[134]/.test(one))).toEqual([])
    }, 120_000)
  },
)
