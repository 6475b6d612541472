import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { scriptedModel, testApp, type TestUser } from 'oracle-runtime/testing'
import { startServer } from '../../test/support/process.ts'
import reminders from './reminders.ts'

const said = async (user: TestUser, sessionId: string): Promise<string[]> => {
  const { body } = await user.get(`/messages/${sessionId}`)
  return body.messages.map(({ content }: { content: string }) => content)
}
const unread = async (user: TestUser, sessionId: string): Promise<number> => {
  const { sessions } = (await user.get('/sessions')).body
  return sessions.find((one: { sessionId: string }) => one.sessionId === sessionId).unread
}

it('reminds a user who asked in words, without a key and at its minute', async () => {
  await using app = await testApp({ plugins: [reminders], clock: true })
  const user = await app.user('amina')
  const { sessionId, tools } = await user.say('Remind me in one minute to call the clinic')
  expect(tools).toContain('remind_me')
  await app.clock.advance('59s')
  expect(await said(user, sessionId)).not.toContain('Reminder: call the clinic.')
  expect(await unread(user, sessionId)).toBe(0)

  await app.clock.advance('1s')
  expect((await said(user, sessionId)).at(-1)).toBe('Reminder: call the clinic.')
  expect(await unread(user, sessionId)).toBe(1)
  const { notices } = (await user.get('/notices?unread=true')).body
  expect(notices).toMatchObject([
    { kind: 'say', plugin: 'reminders', text: 'Reminder: call the clinic.', sessionId },
  ])

  // Another model, which shows what it was asked with.
  const model = scriptedModel(['It is at the corner.'])
  await app.again({ model })
  await user.say('Where is it?', { sessionId })
  const read = model.requests[0]?.messages.map(({ content }) => content)
  expect(read?.slice(-2)).toEqual(['[reminders] Reminder: call the clinic.', 'Where is it?'])
})

it('reminds once, at its time, though the server is killed before and after', async () => {
  await using app = await testApp({ plugins: [reminders], clock: true })
  const user = await app.user('amina')
  const { sessionId } = await user.say('Remind me in five minutes to water the plants')
  await app.clock.advance('2m')
  await app.crash()
  await app.again()
  expect(await said(user, sessionId)).not.toContain('Reminder: water the plants.')
  await app.clock.advance('3m')
  await app.crash()
  await app.again()
  await app.clock.advance('1d')
  const words = await said(user, sessionId)
  expect(words.filter((word) => word === 'Reminder: water the plants.')).toHaveLength(1)
})

it('reminds nobody else', async () => {
  await using app = await testApp({ plugins: [reminders], clock: true })
  const [amina, other] = [await app.user('amina'), await app.user('other')]
  await amina.say('Remind me in one minute to call the clinic')
  const { sessionId } = await other.say('Good morning')
  await app.clock.advance('1m')
  expect(await unread(other, sessionId)).toBe(0)
  expect(await said(other, sessionId)).not.toContain('Reminder: call the clinic.')
  expect((await other.get('/notices')).body.notices).toEqual([])
})

it('is served beside the playground by its server', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'reminders-'))
  const server = startServer('examples/reminders/server.ts', { DATA_DIR: dataDir })
  try {
    const health = await fetch(`${await server.url}/health`)
    expect(await health.json()).toMatchObject({ plugins: { reminders: 'loaded' } })
  } finally {
    await server.end()
    rmSync(dataDir, { recursive: true, force: true })
  }
})
