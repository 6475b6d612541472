/** What is wrong with a base address; undefined when nothing is. `like` is an address as it should read. */
export function addressFault(
  address: string,
  {
    setting,
    key,
    like = 'https://api.example.com',
  }: { readonly setting: string; readonly key: string; readonly like?: string },
): { readonly message: string; readonly hint: string } | undefined {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url && /^https?:$/.test(url.protocol) && !url.username && !url.password) return undefined
  return {
    message: `${setting} is not an http or https address.`,
    hint: `Write an address like ${like}, and put the key into ${key}.`,
  }
}
