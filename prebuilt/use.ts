import { statSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { outsidePrefix, readList, type PrebuiltPackage } from './list.ts'
import { foldersOf, type PrebuiltGroups } from './packages.ts'

/**
 * From now on, imports of the packages that were prebuilt in `folder` get the prebuilt files: imports of the runtime,
 * of plugins and of other packages alike, so there is one copy of each. A group of which a file is not what it was when
 * it was prebuilt is imported as it is installed, and so are the groups after it.
 */
export function usePrebuilt(folder: string, groups: PrebuiltGroups): void {
  const homes = foldersOf(groups)
  if (!homes) return
  const addresses = new Map([...homes].map(([name, home]) => [name, `${pathToFileURL(home)}/`]))
  const closed = Object.entries(groups).map(([group, packages]) => ({
    group,
    addresses: packages.map(({ name }) => addresses.get(name) ?? ''),
  }))
  const prebuilt = new Map<string, string>()
  /** Opens the groups up to that of a module; which is most often none. */
  const openFor = (url: string): void => {
    const upTo = closed.findIndex((each) => each.addresses.some((start) => url.startsWith(start)))
    for (const { group } of closed.splice(0, upTo + 1)) {
      const entries = entriesOf(folder, group, homes)
      if (!entries) closed.length = 0
      for (const [address, file] of entries ?? []) prebuilt.set(address, file)
    }
  }
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier.startsWith(outsidePrefix)) {
        const [importer = '', wanted = ''] = specifier.slice(outsidePrefix.length).split('!')
        return next(wanted, { ...context, parentURL: `${addresses.get(importer)}x.js` })
      }
      const found = next(specifier, context)
      if (closed.length > 0) openFor(found.url)
      const url = prebuilt.get(found.url)
      return url === undefined ? found : { ...found, url, format: 'module' }
    },
  })
}

/** Whether all groups of a folder can be used. */
export function isCurrent(folder: string, groups: PrebuiltGroups): boolean {
  const homes = foldersOf(groups)
  return homes !== undefined && Object.keys(groups).every((each) => entriesOf(folder, each, homes))
}

/** The addresses of a group's entries, each with that of its prebuilt file; nothing where a file has changed. */
function entriesOf(
  folder: string,
  group: string,
  homes: ReadonlyMap<string, string>,
): Map<string, string> | undefined {
  const list = readList(folder, group)
  if (!list) return undefined
  const prebuilt = new Map<string, string>()
  for (const { name, files, entries } of list.packages) {
    const home = homes.get(name)
    if (home === undefined || !isUnchanged(home, files)) return undefined
    for (const [path, file] of entries)
      prebuilt.set(`${pathToFileURL(join(home, path))}`, `${pathToFileURL(join(folder, file))}`)
  }
  return prebuilt
}

/** Whether the files of a package are those from which it was prebuilt. */
function isUnchanged(home: string, files: PrebuiltPackage['files']): boolean {
  return files.every(([path, bytes, writtenMs]) => {
    const found = statSync(`${home}/${path}`, { throwIfNoEntry: false })
    return found?.size === bytes && found.mtimeMs === writtenMs
  })
}
