import type { Command } from './command.ts'

/** A command as the list of all commands shows it, with the file that is imported when the command is called. */
interface Listed {
  readonly summary: string
  load(): Promise<{ readonly command: Command }>
}

/** Every command, in the order in which `--help` lists them. */
export const commands: Readonly<Record<string, Listed>> = {
  start: { summary: 'starts the app of this folder', load: () => import('./commands/start.ts') },
  dev: {
    summary: 'starts the app of this folder, and anew with every save',
    load: () => import('./commands/dev.ts'),
  },
  init: { summary: 'makes a new app in an empty folder', load: () => import('./commands/init.ts') },
  new: {
    summary: 'adds a plugin with its test to this app',
    load: () => import('./commands/new.ts'),
  },
  inspect: {
    summary: 'the boot report, without listening',
    load: () => import('./commands/inspect.ts'),
  },
  env: { summary: 'every environment variable', load: () => import('./commands/env.ts') },
  models: {
    summary: 'what models the keys reach, and whether one does what it must',
    load: () => import('./commands/models.ts'),
  },
  token: {
    summary: 'headers for curl, for a development user',
    load: () => import('./commands/token.ts'),
  },
  key: {
    summary: 'makes, lists and ends personal keys of the development user',
    load: () => import('./commands/key.ts'),
  },
  chat: {
    summary: 'talks to the server, or runs the turn without one',
    load: () => import('./commands/chat.ts'),
  },
  grant: {
    summary: 'gives a DID rights on service routes',
    load: () => import('./commands/grant.ts'),
  },
  jobs: {
    summary: 'lists, retries and deletes jobs of the running server',
    load: () => import('./commands/jobs.ts'),
  },
  probe: {
    summary: 'asks a server whether it is ready',
    load: () => import('./commands/probe.ts'),
  },
  check: {
    summary: 'what would stop or degrade a start, each with its remedy',
    load: () => import('./commands/check.ts'),
  },
  migrate: {
    summary: 'runs the migrations, or says which would run',
    load: () => import('./commands/migrate.ts'),
  },
  backup: {
    summary: 'copies the embedded database beside the running server',
    load: () => import('./commands/backup.ts'),
  },
  restore: {
    summary: 'puts a backup in the place of the embedded database',
    load: () => import('./commands/restore.ts'),
  },
  vacuum: {
    summary: 'gives free pages of the embedded database back to the disk',
    load: () => import('./commands/vacuum.ts'),
  },
  storage: {
    summary: 'what takes room in the database of the running server',
    load: () => import('./commands/storage.ts'),
  },
  erase: {
    summary: 'erases users again whom a restored PostgreSQL has brought back',
    load: () => import('./commands/erase.ts'),
  },
  'check:plugin': {
    summary: 'what a plugin still lacks',
    load: () => import('./commands/check-plugin.ts'),
  },
  'build:view': {
    summary: 'builds the part of the playground that a plugin brings',
    load: () => import('./commands/build-view.ts'),
  },
}
