import { createInterface } from 'node:readline/promises'
import { createApp } from '#core'
import { bundled } from '../../plugins/index.ts'
import { Homeserver } from '../../plugins/messaging/testing/homeserver.ts'
import { Person } from '../../plugins/messaging/testing/person.ts'

// npm run example:messaging: a small messaging server, an oracle on it, and you in an encrypted room with the oracle.
const server = await Homeserver.open()
const oracle = server.register('oracle', 'oracle')
server.register('you', 'you')
const app = createApp({
  plugins: bundled,
  env: {
    DATA_DIR: ':memory:',
    LOG_LEVEL: 'warn',
    PORT: '0',
    MESSAGING_EDIT_MS: '300',
    ...process.env,
    MATRIX_BASE_URL: server.url,
    MATRIX_ORACLE_ADMIN_USER_ID: oracle.id,
    MATRIX_ORACLE_ADMIN_PASSWORD: oracle.password,
  },
})
const { url } = await app.listen()
const you = await Person.open(server.url, '@you:home.test', 'you')
const room = await you.createRoom({ invite: [oracle.id], encrypted: true, direct: true })
while (server.room(room).membership(oracle.id) !== 'join')
  await new Promise((resolve) => setTimeout(resolve, 50))
console.log(`The oracle is at ${url}, its messaging server at ${server.url}.`)
console.log(
  'Write to it: every word is encrypted on the way. !help says what it knows. An empty line ends this.\n' +
    `To act here as the user of the page, open ${url}/#/messaging, get a code there, and write !link CODE here.\n`,
)

const terminal = createInterface({ input: process.stdin, output: process.stdout })
for (;;) {
  const line = await terminal.question('you: ').catch(() => '')
  if (line.trim() === '') break
  await you.say(room, line)
  const said = you.seen(room).length
  const isAnswer = ({ sender }: { sender: string }) => sender === oracle.id
  await you.hears(room, (message) => you.seen(room).indexOf(message) >= said && isAnswer(message))
  // An answer grows by edits: wait until it has stood still for a second.
  for (let text = ''; ;) {
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    const now = you.seen(room).findLast(isAnswer)?.body ?? ''
    if (now === text) break
    text = now
  }
  console.log(`oracle: ${you.seen(room).findLast(isAnswer)?.body}\n`)
}
terminal.close()
await you.close()
await app.close()
await server.stop()
