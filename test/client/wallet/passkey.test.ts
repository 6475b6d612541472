import { createHash, createPrivateKey, createPublicKey, hkdfSync } from 'node:crypto'
import type { BrowserContext, CDPSession, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import { launch } from '../../support/browser.ts'
import { kitPage } from '../../support/kit-page.ts'
import { describeWith } from '../../support/services.ts'
import type * as passkey from '../../../client/passkey.ts'

/** What `test/client/kit-page` has put there. */
type Wallets = typeof passkey & {
  show(wallet: passkey.Wallet): void
  options: passkey.PasskeyWalletOptions
  oracleDid: string
}
declare const page: Wallets
declare global {
  interface Window {
    wallet: passkey.PasskeyWallet
    secret: string
    gestures?: number
    cancels?: boolean
  }
}

const seedOf = (secret: string) =>
  Buffer.from(hkdfSync('sha256', Buffer.from(secret, 'base64'), '', 'ed25519', 32))

await describeWith('chromium', 'a passkey in Chromium', (program) => {
  let app: TestApp
  let site: Awaited<ReturnType<typeof kitPage>>
  let browser: Awaited<ReturnType<typeof launch>>
  beforeAll(async () => {
    site = await kitPage()
    app = await testApp({
      plugins: [],
      model: scriptedModel(Array.from({ length: 12 }, () => 'Good day.')),
    })
    browser = await launch(program)
  }, 120_000)
  afterAll(async () => {
    await browser.close()
    await app.close()
    await site[Symbol.asyncDispose]()
  })

  interface Device {
    readonly context: BrowserContext
    readonly page: Page
    readonly cdp: CDPSession
    readonly authenticatorId: string
    readonly sent: string[]
    readonly logged: string[]
  }

  /** A browser with an authenticator of its own. */
  async function device({ hasPrf = true } = {}): Promise<Device> {
    const context = await browser.newContext()
    context.setDefaultTimeout(20_000)
    const tab = await context.newPage()
    const sent: string[] = []
    const logged: string[] = []
    tab.on('request', (request) =>
      sent.push(request.url(), JSON.stringify(request.headers()), request.postData() ?? ''),
    )
    tab.on('console', (message) => logged.push(message.text()))
    const cdp = await context.newCDPSession(tab)
    await cdp.send('WebAuthn.enable', { enableUI: false })
    const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        ctap2Version: 'ctap2_1',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        hasPrf,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    })
    // What the authenticator computes is written down outside of the page's own storage, to look for it everywhere.
    await tab.addInitScript(() => {
      for (const name of ['create', 'get'] as const) {
        const own = navigator.credentials[name].bind(navigator.credentials)
        navigator.credentials[name] = async (...args: [never]) => {
          window.gestures = (window.gestures ?? 0) + 1
          // What a browser throws when its user cancels. The virtual one would be locked from then on.
          if (window.cancels) throw new DOMException('It was not allowed.', 'NotAllowedError')
          const found = await own(...args)
          const { prf } = (found as PublicKeyCredential).getClientExtensionResults()
          if (prf?.results)
            window.secret = btoa(
              String.fromCharCode(...new Uint8Array(prf.results.first as ArrayBuffer)),
            )
          return found
        }
      }
    })
    const found = { context, page: tab, cdp, authenticatorId, sent, logged }
    await open(found)
    return found
  }

  async function open({ page: tab }: Device, isOther = false): Promise<void> {
    await tab.goto(site.address(app.url, app.oracleDid, { isOther }))
    await tab.waitForFunction(() => 'page' in window)
  }

  const setVerified = ({ cdp, authenticatorId }: Device, isUserVerified: boolean) =>
    cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified })

  /** Lets the kept session end now. */
  const expire = ({ page: tab }: Device) =>
    tab.evaluate(async () => {
      const db = await new Promise<IDBDatabase>((resolve) => {
        const request = indexedDB.open('oracle-wallet')
        request.onsuccess = () => resolve(request.result)
      })
      const name = `passkey ${location.hostname}`
      const transaction = db.transaction('kept', 'readwrite')
      const rows = transaction.objectStore('kept')
      const request = rows.get(name)
      request.onsuccess = () => rows.put({ ...request.result, until: 1 }, name)
      await new Promise((resolve) => (transaction.oncomplete = resolve))
      db.close()
      // The tokens that were made in the session end with it.
      await new Promise((resolve) => {
        indexedDB.deleteDatabase('oracle-tokens').onsuccess = resolve
      })
    })

  const create = ({ page: tab }: Device) =>
    tab.evaluate(async () => {
      window.wallet = await page.createPasskeyWallet(page.options)
      return window.wallet.initialWallet.did
    })
  const signIn = ({ page: tab }: Device) =>
    tab.evaluate(async () => {
      window.wallet = await page.signInWithPasskey(page.options)
      return window.wallet.initialWallet.did
    })
  const reopen = ({ page: tab }: Device) =>
    tab.evaluate(async () => {
      const wallet = await page.openPasskeyWallet(page.options)
      if (wallet) window.wallet = wallet
      return wallet?.initialWallet.did
    })
  /** What a request by the wallet's tokens answers. */
  const call = ({ page: tab }: Device, path = '/sessions') =>
    tab.evaluate(
      async ([url, oracle]) => {
        const [invocation, delegation] = await Promise.all([
          window.wallet.createInvocation(oracle!),
          window.wallet.createDelegation(oracle!),
        ])
        const headers = {
          authorization: `Bearer ${invocation.serialized}`,
          'x-auth-type': 'ucan',
          'x-ucan-delegation': delegation.serialized,
        }
        return (await fetch(url!, { headers })).status
      },
      [`${app.url}${path}`, app.oracleDid],
    )
  /** Everything that the page keeps, as its scripts can read it. */
  const dump = ({ page: tab }: Device) =>
    tab.evaluate(async () => {
      const read = <T>(request: IDBRequest<T>) =>
        new Promise<T>((resolve, reject) => {
          request.onsuccess = () => resolve(request.result)
          request.onerror = () => reject(request.error)
        })
      const text = (value: unknown): unknown => {
        if (value instanceof ArrayBuffer) return text(new Uint8Array(value))
        if (value instanceof Uint8Array)
          return [btoa(String.fromCharCode(...value)), String.fromCharCode(...value)]
        if (value instanceof CryptoKey) return `${value.type} ${value.extractable}`
        if (typeof value !== 'object' || value === null) return value
        return Object.entries(value).map(([key, one]) => [key, text(one)])
      }
      const rows: unknown[] = [{ ...localStorage }, { ...sessionStorage }]
      for (const { name } of await indexedDB.databases()) {
        const db = await read(indexedDB.open(name!))
        for (const table of db.objectStoreNames)
          rows.push(text(await read(db.transaction(table).objectStore(table).getAll())))
        db.close()
      }
      return JSON.stringify(rows)
    })

  it('makes a user whose key is the passkey’s, calls as this user, and asks nothing after a reload', async () => {
    const ada = await device()
    const did = await create(ada)
    const secret = await ada.page.evaluate(() => window.secret)
    // The documented way from the passkey to the DID, done again by Node.
    const pkcs8 = Buffer.from('302e020100300506032b657004220420', 'hex')
    const seed = seedOf(secret)
    const key = createPrivateKey({
      key: Buffer.concat([pkcs8, seed]),
      format: 'der',
      type: 'pkcs8',
    })
    const { x } = createPublicKey(key).export({ format: 'jwk' })
    const { ed25519 } = await import('@ucanto/principal')
    expect(did).toBe((await ed25519.derive(new Uint8Array(seed))).did())
    expect(await call(ada)).toBe(200)

    await open(ada)
    expect(await reopen(ada)).toBe(did)
    expect(await ada.page.evaluate(() => window.secret)).toBeUndefined()
    expect(await call(ada)).toBe(200)
    await ada.page.evaluate(() => page.show(window.wallet))
    await ada.page.getByLabel('Message', { exact: true }).fill('Good morning')
    await ada.page.keyboard.press('Enter')
    await ada.page.getByRole('article', { name: 'Oracle' }).getByText('Good day.').waitFor()

    // Neither the passkey's secret nor the seed, the session's proof or a delegation lies anywhere or was told to anybody.
    const tokens = await ada.page.evaluate(
      async (oracle) => (await window.wallet.createDelegation(oracle)).serialized,
      app.oracleDid,
    )
    const kept = await dump(ada)
    expect(kept).toContain('private false')
    expect(kept).not.toContain('private true')
    const forms = (bytes: Buffer) => [
      bytes.toString('base64').slice(0, 40),
      bytes.toString('base64url').slice(0, 40),
      bytes.toString('hex'),
      [...bytes].join(','),
    ]
    const hidden = [...forms(seed), ...forms(Buffer.from(secret, 'base64'))]
    const told = [...ada.sent, ...ada.logged].join('\n')
    for (const form of hidden) {
      expect(kept).not.toContain(form)
      expect(told).not.toContain(form)
    }
    expect(kept).not.toContain(tokens.slice(-60))
    expect(ada.logged.join('\n')).not.toContain(tokens.slice(-60))
    expect(kept).not.toContain(x!)
    expect(createHash('sha256').update(seed).digest('hex')).not.toBe('')
    const exported = await ada.page.evaluate(async () => {
      const db = await new Promise<IDBDatabase>((resolve) => {
        const request = indexedDB.open('oracle-wallet')
        request.onsuccess = () => resolve(request.result)
      })
      const rows = await new Promise<{ pair: CryptoKeyPair; sealed: { key: CryptoKey } }[]>(
        (resolve) => {
          const request = db.transaction('kept').objectStore('kept').getAll()
          request.onsuccess = () => resolve(request.result)
        },
      )
      db.close()
      const tried = rows.flatMap(({ pair, sealed }) =>
        (['jwk', 'raw', 'pkcs8'] as const).flatMap((format) =>
          [pair.privateKey, sealed.key].map((one) => crypto.subtle.exportKey(format, one)),
        ),
      )
      return (await Promise.allSettled(tried)).map(({ status }) => status)
    })
    expect(exported).toEqual(Array(6).fill('rejected'))
    await ada.context.close()
  }, 120_000)

  it('is the same user on another device with the synced passkey, and both are signed out everywhere', async () => {
    const ada = await device()
    const did = await create(ada)
    expect(await call(ada)).toBe(200)
    // Another origin of the site has the passkey and nothing else of what the first one keeps, as another device has.
    await open(ada, true)
    expect(await reopen(ada)).toBeUndefined()
    expect(await signIn(ada)).toBe(did)
    expect(await call(ada)).toBe(200)
    await open(ada)
    expect(await reopen(ada)).toBe(did)
    expect(await call(ada)).toBe(200)

    await ada.page.evaluate(() => window.wallet.signOutEverywhere())
    expect(await reopen(ada)).toBeUndefined()
    await open(ada, true)
    expect(await reopen(ada)).toBe(did)
    expect(await call(ada)).toBe(401)
    // The passkey itself is as good as before.
    expect(await signIn(ada)).toBe(did)
    expect(await call(ada)).toBe(200)
    await ada.context.close()
  }, 120_000)

  it('signs out of this browser, in all its tabs', async () => {
    const ada = await device()
    const did = await create(ada)
    const other = await ada.context.newPage()
    const tab = { ...ada, page: other }
    await open(tab)
    expect(await reopen(tab)).toBe(did)
    await ada.page.evaluate(() => window.wallet.signOut())
    const failure = (one: Device) =>
      call(one).then(
        () => 'answered',
        (error: Error) => error.message,
      )
    for (const one of [ada, tab]) expect(await failure(one)).toContain('You are signed out.')
    expect(await dump(ada)).not.toContain('private')
    await open(ada)
    expect(await reopen(ada)).toBeUndefined()
    await ada.context.close()
  }, 120_000)

  it('asks for one gesture when the session has run out, keeps the draft, and asks nobody out of the blue', async () => {
    const ada = await device()
    const did = await create(ada)
    await ada.page.evaluate(() => page.show(window.wallet))
    const field = ada.page.getByLabel('Message', { exact: true })
    const said = ada.page.locator('.oc-said')
    await field.fill('A draft of mine')
    // What the page asks for at first has its tokens by then.
    await ada.page.locator('.oc-threads[data-state=ready]').waitFor({ state: 'attached' })
    await expire(ada)
    await open(ada)
    expect(await reopen(ada)).toBe(did)
    // What a test evaluates counts as an act of the user, for five seconds.
    const quietly = async (expression: string) => {
      const { result } = await ada.cdp.send('Runtime.evaluate', {
        ...{ expression, awaitPromise: true, returnByValue: true },
      })
      return result.value
    }
    await expect.poll(() => quietly('navigator.userActivation.isActive')).toBe(false)
    const asked = 'wallet.createInvocation(page.oracleDid).then(() => "made", (e) => e.message)'
    expect(await quietly(asked)).toBe('Your session has ended.')
    await quietly('window.refused = 0')
    const noted = 'wallet.createDelegation(did).finally(() => refused++)'
    await quietly(`page.show({ ...wallet, createDelegation: (did) => ${noted} })`)
    await expect
      .poll(() => quietly('document.querySelector("textarea")?.value'))
      .toBe('A draft of mine')
    // What the page asks for by itself was refused, and does not meet the act that follows.
    await expect.poll(() => quietly('refused')).toBe(1)
    expect(await quietly('window.secret')).toBeUndefined()

    const cancels = (does: boolean) => ada.page.evaluate((it) => (window.cancels = it), does)
    await cancels(true)
    await field.press('Enter')
    await ada.page.getByText('The passkey was not given.').first().waitFor()
    expect(await said.or(ada.page.locator('.oc-waiting')).allTextContents()).toContainEqual(
      expect.stringContaining('A draft of mine'),
    )
    // Nothing that goes on behind the page asks again.
    expect(await quietly('gestures')).toBe(1)
    await cancels(false)
    await ada.page.getByRole('button', { name: 'Sign in again' }).first().click()
    await expect.poll(() => ada.page.locator('.oc-ai').count()).toBe(1)
    expect(await said.allTextContents()).toEqual(['A draft of mine'])
    expect(await ada.page.evaluate(() => window.gestures)).toBe(2)
    await ada.context.close()
  }, 120_000)

  it('says what is missing without PRF, and makes nothing', async () => {
    const old = await device({ hasPrf: false })
    const failure = await old.page.evaluate(() =>
      page.createPasskeyWallet(page.options).then(
        () => 'made',
        ({ code, hint }) => `${code}: ${hint}`,
      ),
    )
    expect(failure).toMatch(/^passkey_unsupported: .*createGuestWallet/)
    expect(await reopen(old)).toBeUndefined()
    expect(await dump(old)).not.toContain('private')
    // The guest's key stays in the browser, and is the same user after a reload.
    const guest = () =>
      old.page.evaluate(async () => {
        window.wallet = (await page.createGuestWallet()) as passkey.PasskeyWallet
        return [window.wallet.initialWallet.did, window.wallet.isKept]
      })
    const first = await guest()
    expect(first[1]).toBe(true)
    expect(await call(old)).toBe(200)
    await open(old)
    expect(await guest()).toEqual(first)
    expect(await call(old)).toBe(200)
    await old.page.evaluate(() => window.wallet.signOut())
    expect((await guest())[0]).not.toBe(first[0])
    await old.context.close()
  }, 120_000)

  it('says that a gesture was cancelled, and nobody is signed in', async () => {
    const shy = await device()
    await setVerified(shy, false)
    const failure = await shy.page.evaluate(() =>
      page.createPasskeyWallet(page.options).then(
        () => 'made',
        ({ code }) => code,
      ),
    )
    expect(failure).toBe('passkey_cancelled')
    expect(await reopen(shy)).toBeUndefined()
    await shy.context.close()
  }, 120_000)
})
