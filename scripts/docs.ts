import { readFile, writeFile } from 'node:fs/promises'
import { catalogue } from '../core/error-codes.ts'
import { format, resolveConfig } from 'prettier'
import { kit } from './kit.ts'
import { reference } from './reference.ts'
import { markdownTable } from '../cli/table.ts'
import { allVariables, providerVariables } from './variables.ts'

/** The generated parts of `docs/`, by file and the name of the block in it. */
export const generated: Record<string, Record<string, () => string>> = {
  'docs/models.md': {
    variables: () =>
      markdownTable(
        ['variable', 'what it is'],
        providerVariables().map(({ name, secret, description }) => [
          `\`${name}\``,
          `${description}${secret ? ' *(secret: never logged)*' : ''}`,
        ]),
      ),
  },
  'docs/errors.md': {
    catalogue: () =>
      markdownTable(
        ['code', 'status', 'what it means'],
        Object.entries(catalogue).map(([code, { status, means }]) => [
          `\`${code}\``,
          String(status),
          means,
        ]),
      ),
  },
  'docs/operate.md': {
    environment: () =>
      markdownTable(
        ['variable', 'of', 'default', 'what it does'],
        allVariables().map(
          ({ name, owner, default: value, required, generated, secret, description }) => [
            `\`${name}\``,
            owner,
            value !== undefined
              ? `\`${value}\``
              : [required && 'required', generated && 'generated in development']
                  .filter(Boolean)
                  .join('; ') || '-',
            `${description}${secret ? ' *(secret: never logged)*' : ''}`,
          ],
        ),
      ),
  },
  'docs/kit.md': kit,
  'docs/reference.md': reference,
}

/** The page with its generated blocks made again, formatted with Prettier. */
export async function withBlocks(
  page: string,
  blocks: Record<string, () => string>,
): Promise<string> {
  const text = Object.entries(blocks).reduce((text, [name, make]) => {
    const [start, end] = [`<!-- generated: ${name} -->`, `<!-- end: ${name} -->`]
    const [from, to] = [text.indexOf(start), text.indexOf(end)]
    if (from < 0 || to < from) throw new Error(`the page has no block "${name}"`)
    return `${text.slice(0, from + start.length)}\n\n${make()}\n\n${text.slice(to)}`
  }, page)
  return await format(text, { ...(await resolveConfig('package.json')), parser: 'markdown' })
}

if (import.meta.main)
  for (const [path, blocks] of Object.entries(generated)) {
    await writeFile(path, await withBlocks(await readFile(path, 'utf8'), blocks))
    console.log(`${path} is up to date`)
  }
