import { type Command, UsageError } from '../command.ts'
import { DevServer } from '../dev-server.ts'

/** Starts the app and starts it anew with every save. */
export const command: Command = {
  usage: 'dev',
  example: 'PORT=8080 oracle-runtime dev',
  notes:
    'Watches the folder of the app and its .env. While the app starts anew, requests wait; when it cannot, they are\n' +
    'answered with the reason until the next save. Sessions stay, and answers that were under way go on.',
  async run() {
    const port = Number(process.env.PORT ?? 3000)
    if (!Number.isInteger(port) || port < 0 || port > 65_535)
      throw new UsageError(`PORT is "${process.env.PORT}", which is no port.`)
    const print = (text: string) => void process.stdout.write(text)
    const ended = Promise.withResolvers<number>()
    const dev = await DevServer.open({ folder: process.cwd(), port, print }).catch(
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EADDRINUSE') throw error
        throw new UsageError(`Something else listens on port ${port}. Set PORT to a free one.`)
      },
    )
    print(`\n  Watching. Open ${dev.url}\n\n`)
    let isEnding = false
    const end = () => {
      if (isEnding) process.exit(1)
      isEnding = true
      void dev.close().then(() => ended.resolve(0))
    }
    process.on('SIGINT', end)
    process.on('SIGTERM', end)
    return ended.promise
  },
}
