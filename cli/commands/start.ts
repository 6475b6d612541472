import { appOfFolder } from '../app-of-folder.ts'
import type { Command } from '../command.ts'

/** Does what `node server.ts` does. */
export const command: Command = {
  usage: 'start [--open] [--lan]',
  example: 'PORT=8080 oracle-runtime start',
  notes:
    '--open shows the page of the playground, where the app has one. --lan lets the network of this machine reach it.',
  options: { open: { type: 'boolean' }, lan: { type: 'boolean' } },
  async run() {
    await (await appOfFolder()).listen()
  },
}
