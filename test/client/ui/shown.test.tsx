import './window.ts'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { chain, definePlugin, parts, RuntimeError } from '#core'
import { call, scriptedModel } from '#core/testing'
import { png } from '../../support/sample-files.ts'
import { testOracle } from '../oracle.ts'
import { until } from '../page.ts'
import { person } from './person.tsx'

const shows = definePlugin({
  name: 'shows',
  summary: 'Shows things.',
  visibility: 'always',
  tools: {
    shoot: {
      description: 'Takes a picture.',
      effect: 'read',
      input: z.object({}),
      run: () =>
        parts([{ type: 'image', mediaType: 'image/png', name: 'roof.png', data: png(30) }]),
    },
    dial: {
      description: 'Shows a dial.',
      effect: 'read',
      input: z.object({ name: z.string(), litres: z.number() }),
      run({ name, litres }, { emit }) {
        emit.component(name, { litres })
        return 'Shown.'
      },
    },
  },
})

const Dial = ({ litres }: { litres: number }) => {
  if (litres < 0) throw new Error('A dial has no such place.')
  return <b className="dial">{litres} litres</b>
}

it('draws the components of the page; one that throws, and a name that every object has, break nothing', async () => {
  const names = [
    ['PumpDial', 40],
    ['PumpDial', -1],
    ['Unknown', 2],
    ['constructor', 3],
    ['__proto__', 4],
  ] as const
  const model = scriptedModel([
    ...names.map(([name, litres]) => call('dial', { name, litres })),
    'There they are.',
  ])
  await using oracle = await testOracle({ plugins: [shows], model })
  const { texts, all, say } = person(oracle, { uiComponents: { PumpDial: Dial } })
  await say('Show me.')
  await until(() => texts('.oc-markdown').includes('There they are.'), 60_000)
  expect(texts('.dial')).toEqual(['40 litres'])
  const cards = all('.oc-tool').map(({ dataset }) => dataset.tool)
  const unknown = cards.filter((name) => name !== 'dial')
  expect(unknown.toSorted()).toEqual(['Unknown', '__proto__', 'constructor'])
}, 90_000)

it('shows the files of a tool beside its call', async () => {
  const model = scriptedModel([call('shoot'), 'There it is.'])
  await using oracle = await testOracle({ plugins: [shows], model })
  const { all, say, button } = person(oracle)
  await say('Take a picture.')
  await button('Save roof.png')
  const image = await until(() => all('.oc-files img')[0] as HTMLImageElement | undefined)
  expect(image.alt).toBe('roof.png')
  expect(image.src).toMatch(/^blob:/)
})

it('names the model that answered, where it is another one than was chosen', async () => {
  const down = new RuntimeError('MODEL_OVERLOADED', 'Too many questions.')
  const first = scriptedModel([down, down], { id: 'one/a' })
  const second = scriptedModel(['Here I am.'], { id: 'two/b' })
  await using oracle = await testOracle({ plugins: [], model: chain([first, second]) })
  const { texts, say } = person(oracle)
  await say('Hello')
  await until(() => texts('.oc-ending').includes('Answered by two/b'))
  expect(texts('.oc-told p')).toEqual(['one/a could not answer; two/b answers instead.'])
})

it('speaks the language of a tag, and English where it has no other', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const french = person(oracle, { locale: 'fr-CA' })
  await french.button('Nouvelle discussion')
  french.unmount()
  const other = person(oracle, { locale: 'xx' })
  await other.button('New chat')
})

it.each([
  ['length', 'Cut off: it was as long as an answer may be'],
  ['content_filter', 'Cut off: the model’s provider held back the rest'],
] as const)(
  'says that its %s ended an answer early, at once and after a reload',
  async (ended, told) => {
    const model = scriptedModel([{ text: 'Half of it', ended }, 'All of it.'])
    await using oracle = await testOracle({ plugins: [], model })
    const sessionId = await oracle.session()
    const first = person(oracle, { sessionId })
    await first.say('Tell')
    await until(() => first.texts('.oc-ending').includes(told))
    expect(first.all('.oc-cursor')).toEqual([])
    first.unmount()
    const second = person(oracle, { sessionId }, oracle.within(oracle.tab()))
    await until(() => second.texts('.oc-ending').includes(told))
    await second.say('Go on')
    await until(() => second.texts('.oc-markdown').includes('All of it.'))
    expect(second.texts('.oc-ending')).toEqual([told])
  },
)
