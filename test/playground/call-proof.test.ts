import type { Browser, BrowserContext } from 'playwright-core'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import { Peer } from '../../plugins/calls/media/peer.ts'
import { answeredFingerprint, readOffer } from '../../plugins/calls/signalling/sdp.ts'
import playground from '../../plugins/playground/index.ts'
import { builtPage } from '../support/built-page.ts'
import { describeWith } from '../support/services.ts'
import { CallingPage, launchCaller } from './calling/calling-page.ts'

type Answer = Record<string, any>
interface Between {
  /** What the oracle is asked in place of what the page asked. */
  asked?(body: Answer): Promise<Answer>
  /** What the page is answered in place of what the oracle answered. */
  answered?(body: Answer): Answer
}

/** Oracles whose DID is no key, with what a page that calls them says of whom it trusts. */
const oracles = [
  {
    did: 'did:ixo:entity:4ee0ba4a4bc4e4ba4a4bc4e4ba4a4bc4',
    says: 'A key that this server names has signed this connection; only the server vouches for it.',
  },
  {
    did: 'did:web:oracle.example',
    // The browser finds the whole oracle at the host that its DID names.
    host: 'https://oracle.example',
    says: 'A key of the oracle’s DID document has signed this connection.',
  },
]
const named = (did: string) => `an oracle whose DID is no key: ${did}`
const spying = { place: { ports: [42_200, 42_299], isLocal: true }, silenceMs: 600 } as const

/** The text with another first letter. */
const other = (text: string) => (text.startsWith('A') ? 'B' : 'A') + text.slice(1)

/** What the browser counts of the connections of a page. */
const counted = (caller: CallingPage) =>
  caller.studio(async (studio) => {
    const found: { dtls: string; bytes: number }[] = []
    for (const peer of studio.peers)
      for (const one of (await peer.getStats()).values())
        if (one.type === 'transport')
          found.push({ dtls: String(one.dtlsState), bytes: Number(one.bytesReceived) })
    return found
  }, null)

for (const { did, host, says } of oracles)
  await describeWith('chromium', named(did), (program) => {
    let app: TestApp
    let browser: Browser
    /** The document that the page finds at the oracle: with its key, and its other name. */
    let document = ''

    beforeAll(async () => {
      await builtPage()
      browser = await launchCaller(program)
      app = await testApp({
        plugins: [playground, calls],
        model: scriptedModel(['I am here.']),
        env: {
          ...{ NODE_ENV: 'development', ORACLE_DID: did, CALLS_PER_USER: '3' },
          ...{ CALLS_VOICE: 'none', CALLS_HEARING: 'typed' },
        },
      })
      document = await (await fetch(`${app.url}/.well-known/did.json`)).text()
      expect(document).toContain(did)
    }, 240_000)
    afterAll(async () => {
      await browser?.close()
      await app?.close()
    }, 60_000)

    /** A page that finds such a document, and somebody between it and the oracle. */
    async function visit(between: Between = {}, found = () => document) {
      const prepare = async (context: BrowserContext) => {
        if (host !== undefined)
          await context.route(`${host}/**`, async (route) => {
            const url = route.request().url().replace(host, app.url)
            // A stream of events goes on until its page is closed, and has no answer then.
            const response = await route.fetch({ url }).catch(() => undefined)
            if (response) await route.fulfill({ response }).catch(() => undefined)
          })
        await context.route('**/.well-known/did.json', (route) =>
          route.fulfill({ contentType: 'application/did+json', body: found() }),
        )
        await context.route('**/calls', async (route) => {
          if (route.request().method() !== 'POST') return route.fallback()
          const asked = route.request().postDataJSON()
          const postData = JSON.stringify((await between.asked?.(asked)) ?? asked)
          const url = host && route.request().url().replace(host, app.url)
          const response = await route.fetch({ url, postData })
          const body = await response.json()
          await route.fulfill({ response, json: between.answered?.(body) ?? body })
        })
      }
      const caller = await CallingPage.open(browser, host ?? app.url, prepare)
      onTestFinished(() => caller.close())
      return caller
    }

    it('is proven by a key of its document, and the page says who vouches for that', async () => {
      const caller = await visit()
      await caller.call('Call without a microphone')
      await caller.page.getByText(says).waitFor()
      await caller.type('Hello')
      await caller.page.getByRole('log', { name: 'Captions' }).getByText('I am here.').waitFor()
      expect((await counted(caller))[0]).toMatchObject({ dtls: 'connected' })
      await caller.hangUp()
    }, 200_000)

    it('is not called where somebody stands between, whatever they exchange', async () => {
      const told: string[] = []
      const tell = ({ type }: { readonly type: string }) => told.push(type)
      let earlier: Answer | undefined
      let spy: Awaited<ReturnType<typeof Peer.open>> | undefined
      /** Asks the oracle as the one in between, and keeps a peer of its own for the page. */
      const asSpy = async (body: Answer) => {
        spy = await Peer.open({ ...spying, sdp: readOffer(body.sdp).sdp, tell })
        const print = answeredFingerprint(spy.sdp)
        return { ...body, sdp: body.sdp.replace(/(a=fingerprint:sha-256 )\S+/gi, `$1${print}`) }
      }
      const foreign = document.replace(/(?<=z6Mk\w{8})./g, other)
      const betweens: [string, Between, (() => string)?][] = [
        [
          'no proof',
          {
            answered(body) {
              earlier = body
              return { ...body, proof: undefined }
            },
          },
        ],
        [
          'the signature',
          {
            answered: ({ proof, ...body }) => ({
              ...body,
              proof: { ...proof, signature: other(proof.signature) },
            }),
          },
        ],
        [
          'the answer’s certificate',
          {
            answered: ({ sdp, ...body }) => ({
              ...body,
              sdp: sdp.replace(/(?<=a=fingerprint:sha-256 )./g, other),
            }),
          },
        ],
        ['an earlier answer', { answered: (body) => earlier ?? body }],
        ['the answer', { asked: asSpy, answered: (body) => ({ ...body, sdp: spy!.sdp }) }],
        ['the offer’s certificate', { asked: asSpy }],
        ['the document', {}, () => foreign],
      ]
      expect(foreign).not.toBe(document)
      for (const [what, between, found] of betweens) {
        const caller = await visit(between, found)
        await caller.page.getByRole('button', { name: 'Call without a microphone' }).click()
        await caller.page
          .getByRole('alert')
          .getByText('It cannot be shown that the oracle')
          .waitFor()
        for (const { bytes, dtls } of await counted(caller)) {
          expect(bytes, what).toBe(0)
          expect(dtls, what).not.toBe('connected')
        }
        await spy?.peer.close()
        spy = undefined
        await caller.close()
      }
      expect(told).toEqual([])
    }, 300_000)
  })
