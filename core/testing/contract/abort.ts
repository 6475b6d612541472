import type { Delta, Model } from '../../plugin.ts'
import { user, type ContractCheck, type Stage } from './check.ts'
import { orTooLong, settlesWithin } from './hear.ts'

/** How long a model may go on after the signal fired. */
const limitMs = 100

/** A model stops when its signal fires, wherever it is. */
export const abort: ContractCheck = {
  name: 'abort',
  calls: 2,
  async run(stage) {
    await beforeTheCall(stage, await stage.open([{ text: 'Hello.' }], 'before the call'))
    await amidWords(
      stage,
      await stage.open([{ text: 'One two three', then: 'silence' }], 'amid words'),
    )
    await inSilence(stage, await stage.open(['silence'], 'in silence'))
  },
}

async function beforeTheCall(stage: Stage, model: Model): Promise<void> {
  const { begun, reason } = begin(stage, model, true)
  const first = begun.next()
  if (!(await ends(stage, first, reason, 'before it was asked', begun))) return
  const { value } = await first.catch(() => ({ value: undefined }))
  if (value !== undefined)
    stage.find('The model answers although its signal had fired before it was asked.')
}

async function amidWords(stage: Stage, model: Model): Promise<void> {
  const { begun, controller, reason } = begin(stage, model, false)
  try {
    for (;;) {
      const { done, value } = await orTooLong(begun.next(), controller)
      if (done) return
      if (value.type === 'text') break
    }
  } catch (error) {
    return stage.find(`The model fails to say a word (${stage.told(error)}).`)
  }
  const rest = drain(begun)
  await stage.beat()
  controller.abort(reason)
  await ends(stage, rest, reason, 'amid its words', begun)
}

async function inSilence(stage: Stage, model: Model): Promise<void> {
  const { begun, controller, reason } = begin(stage, model, false)
  const rest = drain(begun)
  await stage.beat()
  controller.abort(reason)
  await ends(stage, rest, reason, 'before its first word', begun)
}

function begin(stage: Stage, model: Model, isFired: boolean) {
  const reason = new Error('The contract stops this answer.')
  const controller = new AbortController()
  if (isFired) controller.abort(reason)
  const asked = stage.request([user('Count from one to a hundred, in words.')])
  const begun = model.stream({ ...asked, signal: controller.signal })[Symbol.asyncIterator]()
  return { begun, controller, reason }
}

async function drain(begun: AsyncIterator<Delta>): Promise<void> {
  while (!(await begun.next()).done);
}

/** Whether the answer ends in time, and by the reason of the signal where it ends by an error. */
async function ends(
  stage: Stage,
  rest: Promise<unknown>,
  reason: Error,
  when: string,
  begun: AsyncIterator<Delta>,
): Promise<boolean> {
  if (!(await settlesWithin(limitMs, rest))) {
    rest.catch(() => {})
    void begun.return?.()?.catch(() => {})
    stage.find(
      `The model ignores the abort: stopped ${when}, it still went on after ${limitMs} ms.`,
    )
    return false
  }
  const error = await rest.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error !== undefined && error !== reason)
    stage.find(
      `Stopped ${when}, the model throws "${stage.told(error)}" in place of its signal's reason.`,
    )
  return true
}
