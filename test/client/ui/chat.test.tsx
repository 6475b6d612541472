import './window.ts'
import { renderToString } from 'react-dom/server'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel } from '#core/testing'
import { ArgsForm, Markdown } from '../../../client/ui.ts'
import { en } from '../../../client/ui/languages/en.ts'
import { fr } from '../../../client/ui/languages/fr.ts'
import { sw } from '../../../client/ui/languages/sw.ts'
import { heldModel } from '../../support/held-model.ts'
import { shortTiming, testOracle, type TestOracle } from '../oracle.ts'
import { mount, until } from '../page.ts'
import { person } from './person.tsx'

const sent: string[] = []
const post = definePlugin({
  name: 'post',
  summary: 'Letters.',
  visibility: 'always',
  examples: ['Write to Ada.', '<img src=x onerror=alert(1)>'],
  tools: {
    send: {
      description: 'Sends a letter.',
      input: z.object({ to: z.string() }),
      run: ({ to }) => {
        sent.push(to)
        return `sent to ${to}`
      },
    },
    ask: {
      description: 'Asks before it sends.',
      approve: true,
      input: z.object({ to: z.string(), pages: z.number().max(9) }),
      run: ({ to, pages }) => `asked ${to} ${pages}`,
    },
  },
})

const count = async (oracle: TestOracle) => {
  const { total } = await oracle
    .tab()
    .request<{ total: number }>(oracle.oracleDid, `${oracle.app.url}/sessions`)
  return total
}

it('makes a session for the first words alone, and shows these at once', async () => {
  const model = scriptedModel(['**Hello** <b>there</b>\n\n- one\n- two'])
  await using oracle = await testOracle({ plugins: [post], model })
  const { texts, all, button, say } = person(oracle)
  await until(() => texts('.oc-suggestions li').includes('Write to Ada.'))
  expect(all('.oc-suggestions img')).toEqual([])
  for (let nth = 0; nth < 10; nth++) (await button('New chat')).click()
  expect(await count(oracle)).toBe(0)
  await say('Good day')
  expect(texts('.oc-said')).toEqual(['Good day'])
  await until(() => texts('.oc-ai strong')[0] === 'Hello')
  expect(texts('.oc-ai li')).toEqual(['one', 'two'])
  expect(texts('.oc-ai .oc-markdown p')[0]).toBe('Hello <b>there</b>')
  expect(all('.oc-ai b')).toEqual([])
  await until(() => texts('.oc-thread-name').includes('Good day'))
  expect(await count(oracle)).toBe(1)
  await until(() => all('.oc-cursor').length === 0)
  // What has just been said has its time as what is read again later has.
  await until(() => all('.oc-message time').length === 2)
})

it('edits what was said in another version, names the write behind it, and goes back and forth', async () => {
  sent.length = 0
  const model = scriptedModel([call('send', { to: 'Ada' }), 'Ada has it.', 'Well then.'])
  await using oracle = await testOracle({ plugins: [post], model })
  const { texts, button, write, say } = person(oracle)
  await say('Write to Ada.')
  await until(() => texts('.oc-markdown').includes('Ada has it.'))
  ;(await button('Edit', '.oc-human')).click()
  await until(() => texts('.oc-edit').length === 1)
  write('.oc-edit textarea', 'Do not write.')
  ;(await button('Send', '.oc-edit')).click()
  await until(() => texts('[role=alertdialog]')[0]?.includes('send'))
  ;(await button('Go on')).click()
  await until(() => texts('.oc-markdown').includes('Well then.'))
  expect(texts('.oc-said')).toEqual(['Do not write.'])
  await until(() => texts('.oc-branches')[0]?.includes('2 / 2'))
  ;(await button('Earlier version')).click()
  await until(() => texts('.oc-said')[0] === 'Write to Ada.')
  await until(() => texts('.oc-branches')[0]?.includes('1 / 2'))
  expect(sent).toEqual(['Ada'])
  const asked = JSON.stringify(model.requests.at(-1)?.messages)
  expect(asked).toContain('Already carried out in another branch')
  expect(texts('.oc-threads li')).toHaveLength(1)
})

it('asks a person, keeps asking after arguments that do not fit, and takes the right ones', async () => {
  const model = scriptedModel([call('ask', { to: 'Ben', pages: 2 }), 'Asked.'])
  await using oracle = await testOracle({ plugins: [post], model })
  const { texts, all, button, write, say } = person(oracle)
  await say('Ask Ben.')
  await until(() => texts('.oc-approval').length === 1)
  expect(texts('.oc-tool .oc-state')).toEqual(['Waits for you'])
  ;(await button('Edit', '.oc-approval')).click()
  const field = (name: string) => all('.oc-field').find((one) => one.textContent?.startsWith(name))
  await until(() => field('pages'))
  const input = (name: string) => field(name)?.querySelector('input')
  expect([input('to')?.value, input('pages')?.value]).toEqual(['Ben', '2'])
  write('.oc-field input[dir=auto]', 'Bo')
  write('.oc-field input[dir=ltr]', '12')
  ;(await button('Approve', '.oc-approval')).click()
  await until(() => field('pages')?.dataset.state === 'wrong')
  const fault = await until(() => field('pages')?.querySelector('[role=alert]'))
  expect(input('pages')?.getAttribute('aria-invalid')).toBe('true')
  expect(input('pages')?.getAttribute('aria-describedby')).toContain(fault.id)
  expect(fault.textContent).toMatch(/9/)
  expect(field('to')?.dataset.state).toBe('fine')
  // What was written stays, nothing else says the same, and nothing offers to say the message again.
  expect(input('to')?.value).toBe('Bo')
  expect(texts('.oc-error')).toEqual([])
  write('.oc-field input[dir=ltr]', '3')
  ;(await button('Approve', '.oc-approval')).click()
  await until(() => texts('.oc-markdown').includes('Asked.'))
  expect(all('.oc-approval').filter((one) => !one.hidden)).toEqual([])
  expect(texts('.oc-error')).toEqual([])
  expect(texts('.oc-tool pre').join()).toContain('asked Bo 3')
})

it('says that the connection is lost, loudly after a while, and tries again when it is told to', async () => {
  const model = heldModel(['One '], ['two.'])
  await using oracle = await testOracle({ plugins: [], model })
  // Without a person it would be a minute.
  const timing = { ...shortTiming, retryMs: 60_000, maxRetryMs: 60_000, stallMs: 60_000 }
  const { texts, all, button, say } = person(oracle, {}, oracle.within(oracle.tab({ timing })))
  await say('Count')
  await until(() => texts('.oc-markdown').includes('One'))
  oracle.proxy.isOffline = true
  oracle.proxy.cutAll()
  await until(() => texts('.oc-connection [role=status]')[0] === 'Connection lost.')
  await until(() => texts('.oc-connection [role=alert]').length === 1, 30_000)
  oracle.proxy.isOffline = false
  ;(await button('Try now', '.oc-connection')).click()
  await until(() => texts('.oc-connection')[0] === 'Connected again.')
  model.goOn()
  await until(() => texts('.oc-markdown').includes('One two.'))
  expect(all('.oc-connection button')).toEqual([])
})

it('shows what is said and what is called in their order, also after a reload and to a screen reader', async () => {
  const model = scriptedModel([
    { text: 'Let me look.', calls: [call('send', { to: 'Ada' })] },
    'There it is.',
  ])
  await using oracle = await testOracle({ plugins: [post], model })
  const first = person(oracle)
  const order = (one: typeof first) => {
    const text = one.texts('.oc-messages')[0] ?? ''
    return ['Let me look.', 'sent to Ada', 'There it is.'].map((words) => text.indexOf(words))
  }
  const isInOrder = (one: typeof first) => {
    const [said = -1, called = -1, then = -1] = order(one)
    return said >= 0 && said < called && called < then
  }
  await first.say('Write.')
  await until(() => isInOrder(first))
  await until(() => first.texts('.oc-hidden').join().includes('There it is.'))
  const { sessionId } = (
    await oracle
      .tab()
      .request<{ sessions: { sessionId: string }[] }>(
        oracle.oracleDid,
        `${oracle.app.url}/sessions`,
      )
  ).sessions[0]!
  first.unmount()
  const again = person(oracle, { sessionId }, oracle.within(oracle.tab()))
  await until(() => isInOrder(again))
})

it('makes a form of whatever schema there is, and says at each field what is wrong', async () => {
  const sent: unknown[] = []
  const schema = {
    type: 'object',
    required: ['kind', 'note'],
    properties: {
      kind: { enum: ['a', 'b'], description: 'Which.' },
      urgent: { type: 'boolean' },
      count: { type: 'integer' },
      note: { type: 'string' },
      more: { type: 'array' },
      ['__proto__']: { type: 'string' },
    },
  }
  const args = { kind: 'b', note: '', more: [1], ['<b>x</b>']: 'y' }
  const form = (of: object) => (
    <ArgsForm
      args={args}
      faults={[]}
      isBusy={false}
      onSubmit={(values) => sent.push(values)}
      {...of}
    />
  )
  const faults = [
    { path: 'more.0', message: 'Not this.' },
    { path: 'elsewhere', message: 'Nor that.' },
  ]
  const { container, render } = mount(form({ schema, faults }))
  const at = (name: string) =>
    [...container.querySelectorAll<HTMLElement>('.oc-field')].find((one) =>
      one.textContent?.startsWith(name),
    )
  expect(at('more')?.querySelector('[role=alert]')?.textContent).toBe('Not this.')
  // What belongs to no field stands at the first: it is said in any case.
  expect(at('kind')?.querySelector('[role=alert]')?.textContent).toBe('Nor that.')
  expect(container.querySelector('b')).toBeNull()
  container.querySelector('form')?.requestSubmit()
  expect(sent.pop()).toEqual(args)
  const set = (field: Element | null | undefined, text: string) => {
    const own = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value')
    own?.set?.call(field, text)
    field?.dispatchEvent(new window.Event('input', { bubbles: true }))
    field?.dispatchEvent(new window.Event('change', { bubbles: true }))
  }
  set(at('more')?.querySelector('textarea'), '[1,')
  container.querySelector('form')?.requestSubmit()
  await until(() => (at('more')?.querySelector('[role=alert]')?.textContent?.length ?? 0) > 10)
  expect(sent).toEqual([])
  set(at('more')?.querySelector('textarea'), '[2]')
  set(at('urgent')?.querySelector('select'), 'true')
  set(at('count')?.querySelector('input'), '7')
  set(at('kind')?.querySelector('select'), '"a"')
  container.querySelector('form')?.requestSubmit()
  expect(sent.pop()).toEqual({ ...args, kind: 'a', urgent: true, count: 7, more: [2] })
  // Without a schema: one field of JSON, which has to be an object.
  render(form({ schema: undefined }))
  const all = await until(
    () =>
      container.querySelectorAll('.oc-field').length === 1 && container.querySelector('textarea'),
  )
  expect(JSON.parse(all.value)).toEqual(args)
  for (const wrong of ['[]', '3', 'null', '{', '']) {
    set(all, wrong)
    container.querySelector('form')?.requestSubmit()
    await until(() => container.querySelector('[role=alert]'))
    expect(sent).toEqual([])
  }
  set(all, '{"z":1}')
  container.querySelector('form')?.requestSubmit()
  expect(sent).toEqual([{ z: 1 }])
})

it('says what was stopped, without a cursor, also after a reload; keeps the draft; brings back what was said', async () => {
  await using oracle = await testOracle({ plugins: [post], model: heldModel(['I begin'], []) })
  const { texts, all, say, press, write, button } = person(oracle)
  await say('Go on for ever')
  await until(() => texts('.oc-markdown').includes('I begin'))
  press('Escape')
  await until(() => texts('.oc-ending').length > 0)
  expect(texts('.oc-ending')).toEqual(['Stopped'])
  expect(all('.oc-cursor')).toEqual([])
  await button('Edit', '.oc-human')
  press('ArrowUp')
  await until(
    () => (all('.oc-edit textarea')[0] as HTMLTextAreaElement)?.value === 'Go on for ever',
  )
  write('.oc-composer textarea', 'a draft')
  const sessionId = (
    await oracle
      .tab()
      .request<{ sessions: { sessionId: string }[] }>(
        oracle.oracleDid,
        `${oracle.app.url}/sessions`,
      )
  ).sessions[0]?.sessionId
  const again = person(oracle, { sessionId })
  await until(() => again.texts('.oc-ending').includes('Stopped'))
  expect(again.all('.oc-cursor')).toEqual([])
  expect((again.all('.oc-composer textarea')[0] as HTMLTextAreaElement).value).toBe('a draft')
})

it('says what was stopped before its first word, also behind it and after a reload', async () => {
  const model = heldModel([], ['At last.'])
  await using oracle = await testOracle({ plugins: [post], model })
  const sessionId = await oracle.session()
  const { texts, say, press } = person(oracle, { sessionId })
  await say('Think for ever')
  await until(() => model.requests.length === 1)
  expect(texts('.oc-ending')).toEqual([])
  press('Escape')
  await until(() => texts('.oc-human .oc-ending').join() === 'Stopped')
  model.goOn()
  await say('And now?')
  await until(() => texts('.oc-markdown').join() === 'At last.')
  expect(texts('.oc-ending')).toEqual(['Stopped'])
  const again = person(oracle, { sessionId })
  await until(() => again.texts('.oc-markdown').join() === 'At last.')
  expect(again.texts('.oc-ending')).toEqual(['Stopped'])
  expect(again.texts('.oc-human .oc-ending')).toEqual(['Stopped'])
})

it('says of words whose answer failed before its first word that it did, after a reload as well', async () => {
  const model = scriptedModel([new Error('The model is away.'), 'At last.'])
  await using oracle = await testOracle({ plugins: [], model })
  const sessionId = await oracle.session()
  const { texts, all, say } = person(oracle, { sessionId })
  await say('Hello')
  // Whether the failure came before the stream began or in it, the page says so.
  await until(() => all('.oc-error').length === 1)
  const again = person(oracle, { sessionId })
  await until(() => again.texts('.oc-human .oc-ending').join() === 'failed')
  await say('Hello?')
  await until(() => again.texts('.oc-markdown').join() === 'At last.')
  expect(again.texts('.oc-ending')).toEqual(['failed'])
  expect(texts('.oc-markdown')).toEqual(['At last.'])
})

it('is not stopped by the second click of a double click on Send, but by any other', async () => {
  const model = heldModel(['I begin'], [' and end.'])
  await using oracle = await testOracle({ plugins: [], model })
  const { texts, say, button } = person(oracle)
  const click = async (detail: number) =>
    (await button('Stop')).dispatchEvent(new window.MouseEvent('click', { bubbles: true, detail }))
  await say('Go on')
  await until(() => texts('.oc-markdown').includes('I begin'))
  await click(2)
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(oracle.proxy.to(/abort/)).toEqual([])
  await click(1)
  await until(() => texts('.oc-ending').join() === 'Stopped')
})

it('finds a conversation by a word that was said in it, and lists all again', async () => {
  const model = scriptedModel(['The Météo says <b>rain</b>.', 'Fine.'])
  await using oracle = await testOracle({ plugins: [post], model })
  const { texts, all, button, say, write } = person(oracle)
  await say('First')
  await until(() => texts('.oc-thread-name').includes('First'))
  await until(() => all('.oc-cursor').length === 0)
  ;(await button('New chat')).click()
  await until(() => texts('.oc-suggestions').length === 1)
  await say('Second')
  await until(() => texts('.oc-thread-name').length === 2)
  write('.oc-search', 'meteo')
  await until(() => texts('.oc-thread-name').join() === 'First')
  expect(texts('.oc-hit')).toEqual(['The Météo says <b>rain</b>.'])
  expect(texts('.oc-hit mark')).toEqual(['Météo'])
  write('.oc-search', 'nobody said this')
  await until(() => texts('.oc-threads [role=status]').includes('No chat has these words.'))
  write('.oc-search', '')
  await until(() => texts('.oc-thread-name').length === 2)
  expect(texts('.oc-hit')).toEqual([])
})

it('speaks three languages, and hides nothing in any of them', () => {
  for (const words of [fr, sw]) expect(Object.keys(words).sort()).toEqual(Object.keys(en).sort())
  expect(fr.stop).not.toBe(en.stop)
  expect(sw.stop).not.toBe(en.stop)
})

it('is rendered on a server, with addresses of the model that lead nowhere', () => {
  const html = renderToString(
    <Markdown
      text={
        '![x](https://evil.example/?q=1) [a](javascript:alert(1)) <script>alert(1)</script> `\u202e`'
      }
    />,
  )
  expect(html).not.toMatch(/<img|<script|javascript:/)
  expect(html).toContain('Image: x (evil.example)')
  expect(html).toContain('&lt;script&gt;')
})
