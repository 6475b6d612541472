/** The text of a sheet, which a view brings along in its one file. */
declare module '*.css?inline' {
  const css: string
  export default css
}
